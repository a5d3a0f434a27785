#include "engine/algo/experiment.h"

#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/core/error.h"
#include "base/env/check_spec.h"
#include "base/processes/process_group.h"

namespace maglev {
namespace {

// as options print it
std::string shortest(float number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace

Experiment::Experiment(const std::string& algo, const std::string& env)
    : algo_(&find_algo(algo)), env_(&find_env(env)), algo_options_(algo_->make_options()) {
  env_params_.resize((env_->params_bytes + sizeof(std::max_align_t) - 1) /
                     sizeof(std::max_align_t));
  env_->make_params(env_params_.data());
  table_.add("seed", run.seed, "seed of everything random", {.min = 0, .max = 9e15});
  table_.add("device", run.device, "auto, cpu, cuda or cuda:<index>");
  table_.add("threads", run.threads, "threads; 0: as many as the process may use",
             {.min = 0, .max = 1024, .free = true});
  table_.add("processes", run.processes,
             "processes that share environments, minibatches and threads, each of "
             "which settings count in all of them; on GPUs each has one of its own",
             {.min = 1, .max = ProcessGroup::kMost});
  table_.add("machines", run.machines,
             "machines that the processes lie on, as many on each: this one listens with --listen "
             "PORT, and `maglev join` brings another; threads are of each",
             {.min = 1, .max = MachineLine::kMost});
  table_.add("hardware", run.hardware,
             "what was layered over the proven settings by +hardware=NAME: a profile of "
             "configs/hardware/ or a file, or auto, what tune found for this machine");
  table_.section("train", [&](OptionTable& t) {
    t.add("steps", run.steps,
          "environment steps to train for, all environments; with train.dataset: updates",
          {.min = 1, .max = 9e15, .unit = "steps"});
    t.add("log_every", run.log_every, "steps between rows of metrics; 0: chosen from train.steps",
          {.min = 0, .max = 9e15, .unit = "steps"});
    t.add("monitor_every", run.monitor_every,
          "seconds between rows of metrics that tell of memory, processors, energy and the GPU "
          "too; 0: none",
          {.min = 0, .max = 1e9, .unit = "seconds"});
    t.add("stall", run.stall,
          "seconds without progress (no stage begins or ends) before a line says where each thread "
          "is; at least 20 times the longest iteration, and five times this before the first has "
          "ended; 0: never",
          {.min = 0, .max = 1e9, .unit = "seconds"});
    t.add("stall_end", run.stall_end,
          "seconds without progress before the process ends with status 4, without a save, for "
          "whoever starts it anew (--continue); more than any stage takes, also before the first "
          "iteration; 0: never",
          {.min = 0, .max = 1e9, .unit = "seconds"});
    t.add("price", run.price,
          "what an hour of the machine costs, in whatever money: the run tells what it has cost so "
          "far; 0: it does not",
          {.min = 0, .max = 1e9, .unit = "an hour"});
    t.add("save_every", run.save_every,
          "steps between checkpoints; 0: ten a run, and one whenever ten minutes have passed, "
          "which the next one replaces",
          {.min = 0, .max = 9e15, .unit = "steps"});
    t.add("keep", run.keep, "newest checkpoints kept besides the best", {.min = 1, .max = 1e6});
    t.add("retry_save", run.retry_save,
          "seconds that a run goes on trying to save its end where it cannot, e.g. on a full disk, "
          "before it ends without",
          {.min = 0, .max = 1e9, .unit = "seconds"});
    t.add(
        "collect", run.collect,
        "lockstep: all environments step together; blocks: each block of them runs the whole "
        "rollout by itself, unless a library steps them, one by one; on a GPU, for those that the "
        "host steps, lockstep unless blocks are asked for: a half steps while it acts for the "
        "other",
        {.free = true, .collecting = true});
    t.add("graph", run.graph,
          "iterations captured as CUDA graphs and replayed; auto: where there is a GPU",
          {.free = true});
    t.add("precision", run.precision,
          "of networks' forward passes; auto: fp32 on a processor, the fastest measured on a GPU");
    t.add("gradients", run.gradients,
          "how several processes add up their gradients: fp32, or rounded to bf16 on the way, "
          "which is half the bytes");
    t.add(
        "deterministic", run.deterministic,
        "on a GPU only operations that give the same bits each time, so that a resumed run equals "
        "an unbroken one; slower, above all with convolutions. A processor always does");
    t.add("dependent_launch", run.dependent_launch,
          "on a GPU of capability 9.0 or later a kernel is brought onto the device while the one "
          "before it still runs (CUDA's programmatic dependent launch)",
          {.free = true});
    t.add("synchronise", run.synchronise,
          "on a GPU each launch is waited for, so that an error is told where it was made; slow");
    t.add("opponents", run.opponents,
          "who plays the second agent, by commas: scripted players of the environment, past (past "
          "selves), self, folders of runs or <folder>@<checkpoint>; empty: all agents learn");
    t.add("past", run.past, "past selves in play at once", {.min = 1, .max = 1000});
    t.add("past_every", run.past_every, "steps between two past selves; 0: twenty a run",
          {.min = 0, .max = 9e15, .unit = "steps"});
    t.add("matchmaking", run.matchmaking,
          "even: each opponent alike; hard: those that are not beaten yet more often");
    t.add("warmup", run.warmup,
          "iterations run first and undone exactly; before a capture two at least",
          {.min = 0, .max = 1e6});
    t.add("overlap", run.overlap,
          "updates of an iteration run beside the steps of the next, on threads of their own, on a "
          "GPU on a stream of their own");
    t.add("prefetch", run.prefetch,
          "the next batch is drawn from the replay while one is learned from, by a thread of its "
          "own, on a GPU on a stream of its own; auto: where batches are of 1 MiB and more, and "
          "there are more threads than one or the ring lies in pinned memory",
          {.free = true});
    t.add("dataset", run.dataset,
          "files to learn from instead of an environment, by commas (maglev data writes them)");
    t.add("replay_memory", run.replay_memory,
          "where a replay lies on a GPU: on the device or in pinned memory of the host; auto: on "
          "the device where it leaves the rest enough",
          {.free = true});
    t.add("rollout_memory", run.rollout_memory,
          "where a rollout's observations lie on a GPU: on the device, or in pinned memory of the "
          "host where they are too many",
          {.free = true});
    t.add("replay_folder", run.replay_folder,
          "on a processor: observations of the replay lie in a file of this folder, mapped into "
          "memory, and may be more than memory holds; empty: in memory");
    t.add("save_replay", run.save_replay,
          "checkpoints hold the replay; else a resumed run begins with an empty one",
          {.collecting = true});
    t.add("replay_capacity", run.replay_capacity,
          "rows of the replay, all environments; 0: what the algorithm says",
          {.min = 0, .max = 1e15, .unit = "rows", .collecting = true});
    t.add("memory_limit", run.memory_limit,
          "of what a run will hold, e.g. 4GiB; auto: what is free where it runs; none: no limit");
    t.add("shrink_replay", run.shrink_replay,
          "a replay that does not fit the limit becomes smaller; else the run is refused",
          {.collecting = true});
    t.add("eval_every", run.eval_every,
          "steps between evaluations, beside training and on seeds of their own; each is of a "
          "checkpoint saved there; 0: none",
          {.min = 0, .max = 9e15, .unit = "steps"});
    t.add("eval_episodes", run.eval_episodes, "episodes of an evaluation",
          {.min = 1, .max = 1e6, .unit = "episodes"});
    t.add("eval_env", run.eval_env,
          "env.* settings in which evaluations differ from training, by commas, e.g. "
          "split=valid,negatives=0; empty: none");
    t.add("until_return", run.until_return,
          "the run ends once an evaluation has this mean return; without evaluations: the last 100 "
          "episodes of training, and as many as there are environments; .inf: never");
    t.add("on_divergence", run.on_divergence,
          "when a figure or a gradient is not finite: warn once and go on, or save and stop with "
          "exit status 3");
    t.add("init_from", run.init_from,
          "folder of a run whose newest networks a new run begins with (<folder>@<checkpoint>: "
          "others), or of several seeds, whose own each seed takes; empty: initialised");
  });
  table_.section("trace", [&](OptionTable& t) { trace.describe(t); });
  table_.section("env", [&](OptionTable& t) {
    t.add("count", run.env_count, "environments stepped together",
          {.min = 1, .max = 1 << 24, .collecting = true});
    env_->describe(t, env_params_.data());
  });
  table_.section(algo_->name, [&](OptionTable& t) { algo_->describe(t, algo_options_.get()); });
}

std::string Experiment::load_proven(const std::vector<std::string>& folders) {
  for (const char* name : {env_->name, kAnyEnvironment})
    for (const std::string& folder : folders) {
      const auto path =
          std::filesystem::path(folder) / "configs" / algo_->name / (std::string(name) + ".yaml");
      if (!std::filesystem::exists(path)) continue;
      table_.load(path.string(), Origin::proven);
      return path.string();
    }
  return "";
}

std::vector<std::string> Experiment::settle(bool of_run) {
  std::vector<std::string> notes;
  // proven settings are of runs that play
  const Field* opponents = table_.find("train.opponents");
  if (!run.dataset.empty() && !run.opponents.empty() && opponents &&
      opponents->origin < Origin::file) {
    notes.push_back("train.opponents is empty here and not " + run.opponents +
                    " of the proven settings: a run that learns from train.dataset plays nothing");
    table_.set("train.opponents", "", "settings", opponents->origin);
  }
  // each setting gives way once: what still contradicts then is the user's to mend
  for (size_t i = 0; algo_->check && i <= table_.fields().size(); ++i) {
    try {
      algo_->check(algo_options(), spec(), learning_rows());
      break;
    } catch (const SettingError& error) {
      const auto& [setting, must, got, nearest] = error.what_is_wrong;
      const Field* field = table_.find(setting);
      const Origin origin = field ? field->origin : Origin::command_line;
      const bool own = of_run && origin == Origin::file && field->rule.acting;
      const bool stands = origin >= Origin::file && !own;
      if (stands || nearest.empty() || i == table_.fields().size()) throw;
      table_.set(setting, nearest, "settings", origin);
      notes.push_back(setting + " is " + nearest + " here and not " + got +
                      (own                         ? " of the run"
                       : origin == Origin::profile ? " of the profile"
                       : origin == Origin::proven  ? " of the proven settings"
                                                   : " as by default") +
                      ": it must be " + must);
    }
  }
  // of a run that is to act nothing is shaped any more
  if (!of_run) settle_discounts(notes);
  return notes;
}

void Experiment::settle_discounts(std::vector<std::string>& notes) {
  const Field* own = nullptr;
  const std::string section = std::string(algo_->name) + ".";
  for (const Field& field : table_.fields())
    if ((field.rule.discount || field.rule.horizon) && field.name.starts_with(section))
      own = &field;
  // 0 is chosen by what is learned from
  if (!own || own->plain() == "0") return;
  const std::string theirs = own->name + "=" + own->plain();
  const std::string discount =
      own->rule.horizon ? shortest(float(1 - 1 / std::stod(own->plain()))) : own->plain();
  constexpr std::string_view kEnv = "env.";
  for (const Field& field : table_.fields()) {
    if (!field.rule.discount || !field.name.starts_with(kEnv)) continue;
    const std::string was = field.plain();
    // as people write it
    constexpr float kSame = 1e-5f;
    if (std::abs(std::stof(was) - std::stof(discount)) < kSame ||
        !env_->idle(env_params_.data(), field.name.substr(kEnv.size())).empty())
      continue;
    if (field.origin < Origin::file) {
      notes.push_back(field.name + " is " + discount + " here and not " + was + ", as " + theirs);
      table_.set(field.name, discount, "settings", field.origin);
    } else {
      notes.push_back(field.name + "=" + was + " is another discount than " + theirs +
                      ": what the rewards are shaped by may change what is best");
    }
  }
}

EnvSpec Experiment::spec() const {
  EnvSpec spec = env_->spec(env_params_.data());
  check_spec(spec, env_->name);
  return spec;
}

AlgoContext context_of(const Experiment& experiment, const Placement& placement, ThreadPool& pool) {
  return {.spec = experiment.spec(),
          .rows = experiment.learning_rows() / placement.processes,
          .total_steps = experiment.run.steps,
          .seed = experiment.run.seed,
          .device = placement.device,
          .pool = &pool,
          .precision = placement.precision,
          .processes = placement.processes,
          .group = placement.group};
}

}  // namespace maglev
