// maglev data: a run's replay as a file that others can learn from.

#include <cstdio>

#include "base/core/error.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/dataset.h"
#include "engine/train/trainer.h"
#include "verbs/arguments.h"
#include "verbs/verb.h"

namespace maglev::verbs::data {

VerbEntry entry();

namespace {

// algorithms that can learn from rows of this environment, by commas
std::string learners(const Experiment& from) {
  std::string names;
  for (const AlgoEntry& algo : algo_table()) {
    if (!algo.plan) continue;
    try {
      Experiment experiment(algo.name, from.env().name);
      for (const Field& field : from.table().fields())
        if (field.name.starts_with("env."))
          experiment.table().set(field.name, field.plain(), "data", Origin::command_line);
      ThreadPool pool(1);
      const DataPlan plan =
          algo.plan(experiment.algo_options(), context_of(experiment, place("cpu", 1), pool));
      if (plan.may_learn_from_dataset())
        names += (names.empty() ? "" : ", ") + std::string(algo.name);
    } catch (const Error&) {
      // it refuses the environment
    }
  }
  return names;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.least = 2, .most = 2, .names = "<run> <file>"});
  if (arguments.help()) return arguments.print_help();
  claim_threads();
  const std::string &folder = arguments.positional()[0], &file = arguments.positional()[1];
  const auto experiment = experiment_of(folder);
  RunOptions& settings = experiment->run;
  // a checkpoint holds the rows of all
  settings.processes = 1;
  Trainer trainer(*experiment, place("cpu", settings.threads));
  if (!trainer.algorithm().plan().replay || !settings.dataset.empty() || !settings.save_replay)
    throw Error("[" + folder + "] keeps no replay in its checkpoints: " +
                (settings.save_replay ? "it learns from what it just collected, or from a dataset"
                                      : "train.save_replay was false"));
  const std::string checkpoint = CheckpointStore(folder, 0).newest_valid();
  if (checkpoint.empty()) throw no_valid_checkpoint(folder);
  load_checkpoint(checkpoint, identity_of(*experiment),
                  [&](StateVisitor& v) { trainer.visit_state(v); });
  const int64_t rows =
      write_dataset(file, experiment->env().name, trainer.envs().spec(), *trainer.store().replay());
  const std::string env = experiment->env().name, able = learners(*experiment);
  const std::string first = able.substr(0, able.find(','));
  std::printf(
      "%s holds %lld rows of %s; %s\n", file.c_str(), static_cast<long long>(rows), env.c_str(),
      able.empty() ? "no algorithm here learns from such rows"
                   : ("`maglev train " + first + " " + env + " train.dataset=" + file +
                      "` learns from them" +
                      (able == first ? "" : ", as do others: " + able.substr(first.size() + 2)))
                         .c_str());
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "data",
          .summary = "write a run's replay as a dataset to learn from",
          .usage = "data <run> <file>",
          .run = run};
}

}  // namespace maglev::verbs::data
