#include "engine/train/training_run.h"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <unistd.h>

#include <torch/version.h>

#include "base/core/error.h"
#include "base/core/version.h"
#include "base/metrics/writer.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/fastest_precision.h"
#include "engine/train/memory_plan.h"

namespace maglev {
namespace {

volatile std::sig_atomic_t signals_seen = 0;

// the first asks for a save and an end, the second leaves at once
void on_signal(int signal) {
  signals_seen = signals_seen + 1;
  if (signals_seen > 1) _exit(128 + signal);
}

class SignalGuard {
 public:
  SignalGuard() {
    signals_seen = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~SignalGuard() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

// 1234567 as 1,234,567
std::string count_text(int64_t n) {
  const std::string digits = std::to_string(n);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// one session of a run: the loop with everything that touches the folder
class Session {
 public:
  Session(Trainer& trainer, RunDir& dir, const RunRequest& request, int64_t resumed_at)
      : trainer_(trainer),
        dir_(dir),
        forgot_(resumed_at >= 0 && trainer.forgets_replay()),
        store_(dir.path(), int(trainer.experiment().run.keep)),
        writer_(open(request, resumed_at)) {
    const Experiment& experiment = trainer.experiment();
    status_ = {.algo = experiment.algo().name,
               .env = experiment.env().name,
               .state = "running",
               .steps = trainer.step(),
               .total_steps = experiment.run.steps,
               .started = double(std::time(nullptr))};
    if (resumed_at >= 0) status_.started = read_status(dir.path()).started;
    dir_.write_status(status_);
  }

  RunOutcome run() {
    try {
      SignalGuard guard;
      trainer_.stop_when([] { return signals_seen > 0; });
      std::string graph_note;
      if (forgot_) say("the replay was not saved (train.save_replay=false): it begins empty");
      // step 0 is saved too: a disk that cannot hold a checkpoint says so now and not after an hour
      if (trainer_.step() == 0) save(/*must=*/true);
      while (!trainer_.done() && !signals_seen) {
        // with a replay graphs come after the first updates
        if (graph_note != trainer_.graph_note()) say(graph_note = trainer_.graph_note());
        trainer_.iterate();
        bool flushed = trainer_.flush_due();
        if (flushed) trainer_.begin_flush();
        push(/*wait=*/false);
        const bool last = trainer_.done() || signals_seen;
        if (last || trainer_.save_due()) save(last);
        // shown after the save, so that a run which goes on from it flushes where an unbroken one
        // does
        if (last && !flushed) trainer_.begin_flush();
        if (last) push(/*wait=*/true);
      }
      const bool finished = trainer_.done();
      end(finished ? "finished" : "stopped", "");
      return finished ? RunOutcome::finished : RunOutcome::stopped;
    } catch (const std::exception& e) {
      end("failed", e.what());
      throw;
    }
  }

  /// A line for people: on the console and in log.txt.
  void say(const std::string& text) {
    writer_.note(text);
    try {
      dir_.log(text);
    } catch (const Error&) {
      // a log line is not worth a run; the console has it
    }
  }

 private:
  MetricWriter open(const RunRequest& request, int64_t resumed_at) {
    const Experiment& experiment = trainer_.experiment();
    RunInfo info{.dir = dir_.path(),
                 .algo = experiment.algo().name,
                 .env = experiment.env().name,
                 .device = trainer_.placement().device.str() + ", " +
                           std::to_string(trainer_.placement().threads) + " threads, " +
                           name_of(trainer_.placement().precision),
                 .total_steps = experiment.run.steps,
                 .resumed_at = resumed_at,
                 .options_yaml = experiment.table().yaml()};
    std::vector<std::string> names = request.sinks;
    if (names.empty())
      for (const auto& sink : sink_table())
        if (sink.on_by_default) names.emplace_back(sink.name);
    return MetricWriter(open_sinks(info, names), &trainer_.progress());
  }

  // rows that have come from the device; with `wait`, also one on its way
  void push(bool wait) {
    while (auto row = trainer_.next_row(wait)) writer_.push(std::move(*row));
  }

  void save(bool must) {
    const Experiment& experiment = trainer_.experiment();
    push(/*wait=*/true);
    writer_.flush();
    CheckpointIdentity identity{.algo = experiment.algo().name,
                                .env = experiment.env().name,
                                .engine_version = kEngineVersion,
                                .torch_version = TORCH_VERSION,
                                .options_yaml = experiment.table().yaml(),
                                .step = trainer_.step(),
                                .updates = trainer_.updates(),
                                .return_mean = trainer_.return_mean(),
                                .seconds = trainer_.seconds()};
    try {
      store_.save(identity, [&](StateVisitor& v) { trainer_.visit_state(v); });
      if (const League* league = trainer_.league())
        write_atomic(dir_.path() + "/league.json", league->json(trainer_.step()));
      say("checkpoint saved at step " + count_text(trainer_.step()));
    } catch (const Error& e) {
      if (must) throw;
      say(std::string("no checkpoint at step ") + count_text(trainer_.step()) + ": " + e.what() +
          "; training goes on and tries again at the next one");
    }
    status_.steps = trainer_.step();
    status_.return_mean = trainer_.return_mean();
    write_status();
  }

  void write_status() {
    try {
      dir_.write_status(status_);
    } catch (const Error& e) {
      writer_.note(e.what());
    }
  }

  void end(const std::string& state, const std::string& message) {
    status_.state = state;
    status_.message = message;
    status_.steps = trainer_.step();
    status_.return_mean = trainer_.return_mean();
    status_.ended = double(std::time(nullptr));
    write_status();
    if (!message.empty()) say(message);
    writer_.close(state);
  }

  Trainer& trainer_;
  RunDir& dir_;
  bool forgot_;
  CheckpointStore store_;
  MetricWriter writer_;
  RunStatus status_;
};

Placement placement_of(Experiment& experiment) {
  const RunOptions& run = experiment.run;
  return settle_precision(experiment, place(run.device, run.threads, run.precision));
}

Reproduce reproduce_of(const Trainer& trainer, const RunRequest& request) {
  return {.command = request.command,
          .seed = std::to_string(trainer.experiment().run.seed),
          .engine_version = kEngineVersion,
          .git_commit = kEngineCommit,
          .torch_version = TORCH_VERSION,
          .device = trainer.placement().device.str(),
          .threads = trainer.placement().threads};
}

}  // namespace

RunOutcome train_new(Experiment& experiment, const RunRequest& request) {
  // everything that can be wrong with the settings comes before the folder is made
  const Placement placement = placement_of(experiment);
  std::string shrunk;
  const MemoryPlan memory = fit_memory(experiment, placement, &shrunk);
  Trainer trainer(experiment, placement);
  // the ring of a checkpoint fits no other size: a run that is resumed for longer keeps this one
  if (const Replay* replay = trainer.store().replay())
    experiment.run.replay_capacity = replay->shape().capacity;
  RunDir dir = RunDir::create({.out = request.out,
                               .algo = experiment.algo().name,
                               .env = experiment.env().name,
                               .overwrite = request.overwrite});
  dir.write_config(experiment.table().yaml());
  dir.write_reproduce(reproduce_of(trainer, request));
  write_atomic(dir.path() + "/memory.json", memory.json());
  trainer.warm_up();
  Session session(trainer, dir, request, -1);
  for (const std::string& note : request.notes) session.say(note);
  session.say("memory: " + memory.text());
  if (!shrunk.empty()) session.say("memory: " + shrunk);
  return session.run();
}

RunOutcome train_resume(const std::string& folder, const std::vector<std::string>& overrides,
                        const RunRequest& request) {
  RunDir dir = RunDir::open(folder);
  auto experiment = experiment_of(folder);
  const std::string before = experiment->table().yaml();
  for (const auto& o : overrides) experiment->table().override_with(o);
  const Placement placement = placement_of(*experiment);
  // the checkpoint's replay has the size it has
  fit_memory(*experiment, placement, /*note=*/nullptr);
  Trainer trainer(*experiment, placement);
  CheckpointStore store(dir.path(), int(experiment->run.keep));
  const std::string checkpoint = store.newest_valid(
      [](const std::string& note) { std::fprintf(stderr, "maglev: %s\n", note.c_str()); });
  if (checkpoint.empty())
    throw Error("[" + folder +
                "] holds no valid checkpoint to resume from; start the run again with the command "
                "in reproduce.md");
  CheckpointIdentity identity =
      load_checkpoint(checkpoint, {.algo = experiment->algo().name, .env = experiment->env().name},
                      [&](StateVisitor& v) { trainer.visit_state(v); });
  trainer.continue_clock(identity.seconds);
  if (trainer.forgets_replay()) trainer.store().replay()->forget();
  if (!overrides.empty() && experiment->table().yaml() != before) {
    write_atomic(dir.path() + "/config.before-" + std::to_string(identity.step) + ".yaml", before);
    dir.write_config(experiment->table().yaml());
  }
  if (trainer.done())
    throw Error("[" + folder + "] has done its " + std::to_string(experiment->run.steps) +
                " steps; to train on, add train.steps=<more>");
  trainer.warm_up();
  Session session(trainer, dir, request, identity.step);
  return session.run();
}

}  // namespace maglev
