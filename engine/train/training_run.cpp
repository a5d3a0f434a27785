#include "engine/train/training_run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <sstream>

#include <torch/version.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/split.h"
#include "base/core/version.h"
#include "base/core/words.h"
#include "base/env/env_params.h"
#include "base/metrics/writer.h"
#include "engine/algo/micro_batch.h"
#include "engine/host/build_text.h"
#include "engine/play/league.h"
#include "engine/run/checkpoint.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/env_title.h"
#include "engine/run/given.h"
#include "engine/run/kept_files.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/dataset.h"
#include "engine/train/evaluation.h"
#include "engine/train/fastest_precision.h"
#include "engine/train/few_rows.h"
#include "engine/train/first_update.h"
#include "engine/train/idle_settings.h"
#include "engine/train/init_from.h"
#include "engine/train/memory_plan.h"
#include "engine/train/processes.h"
#include "engine/train/session.h"
#include "engine/train/store.h"

namespace maglev {
namespace {

constexpr size_t kMostIdentity = 16 << 20;    // bytes of a dataset.txt
constexpr int64_t kLarge = int64_t(4) << 30;  // bytes of a run that are told before they are taken

Placement placement_of(const Experiment& experiment) {
  const RunOptions& run = experiment.run;
  // read when the first device is touched
  if (run.synchronise) setenv("CUDA_LAUNCH_BLOCKING", "1", /*overwrite=*/0);
  return share_of(experiment, place(run.device, run.threads, run.precision));
}

Reproduce reproduce_of(const Trainer& trainer, const RunRequest& request) {
  return {.command = request.command,
          .seed = std::to_string(trainer.experiment().run.seed),
          .engine_version = kEngineVersion,
          .git_commit = kEngineCommit,
          .torch_version = TORCH_VERSION,
          .device = trainer.placement().device.str(),
          .plugins = plugins_text(),
          .threads = trainer.placement().threads,
          .processes = trainer.placement().processes,
          .machines = trainer.placement().machines};
}

// memory that the system does not give, whoever asked for it, as one line
template <class Work>
RunOutcome with_memory(const Work& work) {
  const auto refused = [](const std::string& why) {
    return Error(
        "[memory] the system does not give what the run asks for (" + why +
        "); use fewer environments, a smaller batch, network or replay, or raise the limits of "
        "this process (ulimit -v); with train.memory_limit=<size> a run is measured "
        "beforehand and what takes how much is said");
  };
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw refused("out of memory");
  } catch (const c10::Error& e) {
    if (!is_out_of_memory(e)) throw;
    // torch's allocator on a processor says the place in its source first
    const std::string what = e.what_without_backtrace();
    const size_t begin = what.find("DefaultCPUAllocator");
    throw refused(begin == std::string::npos ? what : what.substr(begin));
  }
}

struct Settings {
  std::vector<std::pair<std::string, std::string>> values;

  explicit Settings(const OptionTable& table) {
    for (const Field& field : table.fields()) values.emplace_back(field.name, field.text());
  }
  // "ppo.lr: 0.001 -> 0.0003" of each that differs
  std::vector<std::string> changes_to(const Settings& other) const {
    std::vector<std::string> changes;
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].second != other.values[i].second)
        changes.push_back(values[i].first + ": " + values[i].second + " -> " +
                          other.values[i].second);
    return changes;
  }
};

// a line for people for each file of a dataset that is no longer what the run learned from; from
// here on it knows those it has now
std::vector<std::string> changed_dataset(RunDir& dir, const RunOptions& run) {
  const std::string path = dir.path() + "/dataset.txt";
  const std::string now = run.dataset.empty() ? "" : dataset_identity(run);
  const std::string then = path_exists(path) ? read_file(path, kMostIdentity) : "";
  if (now == then) return {};
  dir.write("dataset.txt", now);
  std::vector<std::string> changes;
  std::istringstream before(then), after(now);
  for (std::string was, is; std::getline(before, was) && std::getline(after, is);)
    if (was != is) changes.push_back("changed dataset: " + was + " -> " + is);
  return changes;
}

// files by commas, as they are called from everywhere
std::string absolute_names(const std::string& files) {
  std::string names;
  for (const std::string& file : split_list(files, "train.dataset"))
    names +=
        (names.empty() ? "" : ",") + std::filesystem::absolute(file).lexically_normal().string();
  return names;
}

// the settings that checkpoints are judged in, where they are or train.eval_env asks for others,
// looked at before anything is made: reading what they name may take a while. Empty: they are not.
// Throws Error.
std::string judged_in(const Experiment& experiment) {
  if (experiment.run.eval_every == 0 && experiment.run.eval_env.empty()) return "";
  const std::string settings = evaluation_env(experiment)->table().yaml();
  return experiment.run.eval_every > 0 ? settings : "";
}

// rows of all processes' rings
int64_t rows_kept(Trainer& trainer, const Replay& replay) {
  return replay.shape().capacity * trainer.placement().processes;
}

// the ring of a checkpoint fits no other size: a run that is resumed for longer keeps this one
void settle_capacity(Trainer& trainer, RunOptions& run) {
  if (const Replay* replay = trainer.store().replay(); replay && run.dataset.empty())
    run.replay_capacity = rows_kept(trainer, *replay);
}

RunOutcome begin_run(Experiment& experiment, const RunRequest& request) {
  // everything that can be wrong with the settings comes before the folder is made
  check_sinks(request.sinks);
  // a resume may begin elsewhere, and later than an opponent trained on
  const std::string named = settle_names(experiment);
  judged_in(experiment);
  const Placement asked = placement_of(experiment);
  std::string shrunk;
  const MemoryPlan memory = fit_memory(experiment, asked, &shrunk);
  // trials take the run's memory: one that does not fit is refused before
  Placement placement = settle_precision(experiment, asked);
  const std::string& init = experiment.run.init_from;
  const std::string networks = init.empty() ? "" : first_networks(init);
  // not once other machines have come for it
  if (experiment.run.machines > 1)
    RunDir::expect_free({.out = request.out, .overwrite = request.overwrite});
  Processes processes(experiment, request, placement, networks, /*resumed=*/false);
  return processes.telling_failure([&] {
    RunTrace trace(experiment.trace, placement.device.is_cuda());
    // what is large takes a while to be made, and the console begins behind it
    if (memory.total() > kLarge) {
      std::printf("maglev: making what the run holds: %s\n", memory.text().c_str());
      std::fflush(stdout);
    }
    const std::string held = held_by_files(experiment);
    Trainer trainer(experiment, placement);
    std::string unlike;
    if (!networks.empty()) unlike = init_from(trainer, networks);
    processes.begun();
    settle_capacity(trainer, experiment.run);
    RunDir dir = RunDir::create({.out = request.out,
                                 .algo = experiment.algo().name,
                                 .env = env_title(experiment),
                                 .overwrite = request.overwrite});
    Reproduce how = reproduce_of(trainer, request);
    keep_files(dir, experiment, how.command, held);
    dir.write_config(experiment.table().yaml());
    dir.write_reproduce(how);
    dir.write("memory.json", memory.json());
    dir.write(kGivenFile, request.given);
    if (!experiment.run.dataset.empty()) dir.write("dataset.txt", dataset_identity(experiment.run));
    Session session(trainer, dir, request, trace, /*resumed_at=*/-1);
    if (!dir.moved_aside().empty())
      session.say("the run that stood here was moved to " + dir.moved_aside());
    for (const std::string& note : request.notes) session.say(note);
    if (!named.empty()) session.say(named);
    if (!unlike.empty()) session.say(unlike);
    for (const std::string& note : dataset_notes(experiment.run, experiment.env().name))
      session.say(note);
    for (const std::string& note : IdleSettings(experiment, placement).notes()) session.say(note);
    if (experiment.run.eval_every > 0)
      if (const std::string note = evaluation_note(experiment); !note.empty()) session.say(note);
    if (const std::string few = few_rows_note(experiment, placement); !few.empty())
      session.say(few);
    if (const std::string why = why_no_update(experiment, placement); !why.empty())
      session.say("no update will be made: " + why);
    if (const std::string note = short_replay_note(experiment, placement); !note.empty())
      session.say(note);
    session.say("memory: " + memory.text());
    if (!shrunk.empty()) session.say("memory: " + shrunk);
    const RunOutcome outcome = session.run();
    processes.end(trainer);
    return outcome;
  });
}

// what `work` refuses may be what a person wrote into config.yaml, which no one of the settings that
// are refused together says. `edits`: where that file is otherwise than the newest checkpoint
template <class Work>
auto naming_edits(const std::string& folder, const std::vector<std::string>& edits,
                  const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    if (edits.empty()) throw;
    throw Error(std::string(e.what()) + "; " + folder +
                "/config.yaml is otherwise than the newest checkpoint (" + joined(edits, "; ") +
                "), which may be why: mend it there, or give it as name=value");
  }
}

bool holds_already(const OptionTable& table, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  const Field* field = table.find(assignment.substr(0, equals));
  return field && equals != std::string::npos && field->plain() == assignment.substr(equals + 1);
}

// of the changes those that may be of what a checkpoint holds: not how long, how often or by whom
std::vector<std::string> of_what_is_saved(const std::vector<std::string>& changes) {
  std::vector<std::string> kept;
  for (const std::string& change : changes) {
    const bool run = change.starts_with("train.") || change.starts_with("trace.") ||
                     change.starts_with("threads") || change.starts_with("device") ||
                     change.starts_with("processes") || change.starts_with("machines");
    if (!run || change.starts_with("train.opponents") || change.starts_with("train.past:"))
      kept.push_back(change);
  }
  return kept;
}

// the same of a run as it was
std::string judged_once_in(const Experiment& trained) {
  try {
    return judged_in(trained);
  } catch (const Error&) {
    return "";  // what it reads has moved: what is given says where to
  }
}

// what a checkpoint holds of a replay fits no other
void expect_replay_kept(Trainer& trainer, const RunOptions& began,
                        const std::vector<std::string>& changes) {
  if (!began.save_replay) return;
  if (trainer.store().replay() && trainer.experiment().run.replay_capacity != began.replay_capacity)
    throw Error("[train] train.replay_capacity stays " + std::to_string(began.replay_capacity) +
                " in a run that is resumed, whose checkpoints hold a replay of that size; leave it "
                "out");
  for (const std::string& change : changes)
    if (const std::string name = change.substr(0, change.find(':')); name.ends_with(".capacity"))
      throw Error(
          "[train] " + name +
          " is what a new run begins with, and one that is resumed keeps the replay that it "
          "has; leave it out");
}

// why the opponents are others than a checkpoint's, where nothing else changed that it holds; ""
std::string unlike_league(const RunOptions& began, const RunOptions& now,
                          const std::vector<std::string>& kept) {
  const bool alone = std::ranges::all_of(kept, [](const std::string& change) {
    return change.starts_with("train.opponents") || change.starts_with("train.past:");
  });
  if (kept.empty() || !alone) return "";
  if (meets_past(began) && meets_past(now) && began.past != now.past)
    return "train.past stays " + std::to_string(began.past) +
           " in a run that is resumed, whose checkpoints hold that many past selves";
  if (began.opponents == now.opponents) return "";
  const auto named = [](const RunOptions& run) {
    return run.opponents.empty() ? std::string("nobody") : run.opponents;
  };
  return "opponents on a resume must be as many and of the same kinds: " + named(began) +
         " became " + named(now);
}

// loads what the run in `folder` goes on from. A checkpoint that does not fit is put down to files
// that hold something else by now, or to what was changed
CheckpointIdentity restored(Trainer& trainer, const VerifiedCheckpoint& checkpoint,
                            const Experiment& trained, const std::string& folder,
                            const std::vector<std::string>& changes) {
  const Experiment& experiment = trainer.experiment();
  try {
    return load_checkpoint(checkpoint, identity_of(experiment),
                           [&](StateVisitor& v) { trainer.visit_state(v); });
  } catch (const Error& e) {
    const std::string files =
        changed_files(trained, checkpoint.manifest.state, env_settings(experiment.table()));
    if (!files.empty())
      throw Error("[" + folder + "] cannot go on: " + files +
                  " holds something else than what it was trained on; bring that back, or begin a "
                  "new run, where names are the same from these networks: train.init_from=" +
                  folder);
    const auto kept = of_what_is_saved(changes);
    if (kept.empty()) throw;
    const bool unlike = dynamic_cast<const UnlikeState*>(&e);
    if (const std::string why = unlike_league(trained.run, experiment.run, kept);
        unlike && !why.empty())
      throw Error(
          "[train] " + why +
          "; leave it out, or begin a new run from these networks with train.init_from=" + folder);
    throw Error("[" + folder + "] cannot go on with what was changed (" + joined(kept, "; ") +
                "): leave it out, or begin a new run from these networks with train.init_from=" +
                folder + ". What it met: " + e.what());
  }
}

// of a replay that a longer run would begin otherwise
std::vector<std::string> replay_notes(Trainer& trainer, const RunOptions& began) {
  const auto& plan = trainer.algorithm().plan().replay;
  const RunOptions& run = trainer.experiment().run;
  // a dataset waits for no steps, and is as large as it is
  if (!plan || !run.dataset.empty()) return {};
  std::vector<std::string> notes;
  if (trainer.updates() > 0 && plan->first_steps > trainer.step())
    notes.push_back("no update is made before step " + std::to_string(plan->first_steps) +
                    ", the first steps that are set now, though there were " +
                    std::to_string(trainer.updates()) + " already");
  // a ring as large as the run was to be long keeps that size, but where another was asked for
  if (const Replay* replay = trainer.store().replay();
      replay && run.steps > began.steps && run.replay_capacity == began.replay_capacity) {
    RunOptions anew = run;
    anew.replay_capacity = 0;
    const int64_t kept = rows_kept(trainer, *replay);
    const int64_t wanted =
        replay_shape(anew, *plan, replay->shape().window).capacity * run.processes;
    if (wanted > kept)
      notes.push_back(
          "the replay keeps " + std::to_string(kept) +
          (began.save_replay ? " rows, as its checkpoints hold it" : " rows") +
          "; a new run of this length keeps " + std::to_string(wanted) +
          " where train.replay_capacity says nothing else" +
          (began.save_replay ? "" : ", and so does this one by train.replay_capacity=0"));
  }
  return notes;
}

// `command`: what one that was started again gave, a line each; empty: it is a resume
void write_given(RunDir& dir, const std::string& when, const std::string& command,
                 const std::vector<std::string>& resumed) {
  const std::string path = dir.path() + "/" + kGivenFile;
  if (path_exists(path)) {
    const std::string account = read_file(path, kMaxGivenBytes);
    dir.write(kGivenFile, command.empty() ? with_resume(account, when, resumed)
                                          : with_command(account, when, command));
  } else if (!command.empty()) {
    // of a run that began before it was kept: what is given now is what is compared later
    dir.write(kGivenFile, command);
  }
}

RunOutcome continue_run(const std::string& folder, const std::vector<std::string>& overrides,
                        const RunRequest& request) {
  check_sinks(request.sinks);
  RunDir dir = RunDir::open(folder);
  const StoredExperiment stored = stored_experiment(folder);
  const auto &experiment = stored.experiment, &trained = stored.trained;
  // of runs that began before it was kept so
  experiment->settle_env();
  trained->settle_env();
  const std::string before = experiment->table().yaml();
  // what a person changed in config.yaml is a change as one that is given
  const Settings old(trained->table());
  const std::vector<std::string> edits = old.changes_to(Settings(experiment->table()));
  const RunOptions began = trained->run;
  const std::string judged_before = judged_once_in(*trained);
  // what is given as it is already changes nothing, not even what it stands for
  std::vector<std::string> given;
  for (const auto& o : overrides) {
    if (holds_already(experiment->table(), o)) continue;
    experiment->table().override_with(o);
    given.push_back(o);
  }
  std::vector<std::string> replaced;
  std::string judged;
  const Placement asked = naming_edits(folder, edits, [&] {
    settle_names(*experiment, &replaced);
    if (experiment->run.init_from != began.init_from)
      throw Error(
          "[train] train.init_from is what a new run begins with; one that is resumed has its own "
          "networks, leave it out");
    expect_kept_files(*experiment, *trained);
    judged = judged_in(*experiment);
    const Placement placement = placement_of(*experiment);
    // the checkpoint's replay has the size it has
    fit_memory(*experiment, placement, /*note=*/nullptr);
    return placement;
  });
  auto checkpoint = CheckpointStore(dir.path(), int(experiment->run.keep))
                        .newest_verified([](const std::string& note) {
                          std::fprintf(stderr, "maglev: %s\n", note.c_str());
                        });
  if (!checkpoint) throw no_valid_checkpoint(folder);
  Placement placement = settle_precision(*experiment, asked);
  Processes processes(*experiment, request, placement, checkpoint->dir, /*resumed=*/true);
  return processes.telling_failure([&] {
    RunTrace trace(experiment->trace, placement.device.is_cuda());
    const std::string held = held_by_files(*experiment);
    const auto made = naming_edits(
        folder, edits, [&] { return std::make_unique<Trainer>(*experiment, placement); });
    Trainer& trainer = *made;
    // one that no checkpoint holds may have another size now
    if (!began.save_replay) settle_capacity(trainer, experiment->run);
    const auto changes = old.changes_to(Settings(experiment->table()));
    expect_replay_kept(trainer, began, changes);
    const CheckpointIdentity identity = restored(trainer, *checkpoint, *trained, folder, changes);
    processes.begun();
    const std::string from = checkpoint->dir;
    checkpoint.reset();
    trainer.report().continue_clock(identity.seconds, identity.step);
    // one that was killed behind its last checkpoint only has its end to write; one that is asked for
    // less than it has done is none of these
    if (trainer.done() && (has_finished(folder) || experiment->run.steps < began.steps))
      throw Error("[" + folder + "] has done " + std::to_string(trainer.step()) +
                  " steps; to train on, add train.steps=<more than these>");
    // the best is one of those that were judged alike
    if (!judged_before.empty() && !judged.empty() && judged != judged_before)
      CheckpointStore(dir.path(), int(experiment->run.keep)).forget_evaluations();
    if (experiment->table().yaml() != before || !stored.note.empty()) {
      // as it stood there, damaged or not
      dir.move_config_aside(identity.step);
      dir.write_config(experiment->table().yaml());
    }
    write_given(dir, "at step " + std::to_string(identity.step), request.given, given);

    // what was continued, from where and with what changes stays on record
    Reproduce how = reproduce_of(trainer, request);
    keep_files(dir, *experiment, how.command, held);
    const Continued record{
        .how = how, .step = identity.step, .checkpoint = from, .changes = changes};
    dir.write_continued(record);
    Session session(trainer, dir, request, trace, identity.step);
    session.say("resumed at step " + std::to_string(identity.step) + " from " + from);
    if (!stored.note.empty()) session.say(stored.note);
    for (const auto& note : replaced) session.say(note);
    for (const auto& change : record.changes) session.say("changed " + change);
    for (const std::string& note : dataset_notes(experiment->run, experiment->env().name))
      session.say(note);
    for (const std::string& note : changed_dataset(dir, experiment->run)) session.say(note);
    for (const std::string& note : replay_notes(trainer, began)) session.say(note);
    const RunOutcome outcome = session.run();
    processes.end(trainer);
    return outcome;
  });
}

}  // namespace

std::string settle_names(Experiment& experiment, std::vector<std::string>* replaced) {
  experiment.run.dataset = absolute_names(experiment.run.dataset);
  experiment.run.opponents = lasting_opponents(experiment, replaced);
  experiment.run.eval_env = lasting_eval_env(experiment);
  return experiment.settle_env();
}

RunOutcome train_new(Experiment& experiment, const RunRequest& request) {
  return with_memory([&] { return begin_run(experiment, request); });
}

RunOutcome train_resume(const std::string& folder, const std::vector<std::string>& overrides,
                        const RunRequest& request) {
  return with_memory([&] { return continue_run(folder, overrides, request); });
}

}  // namespace maglev
