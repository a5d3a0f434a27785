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

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.least = 2, .most = 2, .names = "<run> <file>"});
  if (arguments.help()) return arguments.print_help();
  claim_threads();
  const std::string &folder = arguments.positional()[0], &file = arguments.positional()[1];
  const auto experiment = experiment_of(folder);
  const RunOptions& settings = experiment->run;
  Trainer trainer(*experiment, place("cpu", settings.threads));
  if (!trainer.algorithm().plan().replay || !settings.dataset.empty() || !settings.save_replay)
    throw Error("[" + folder + "] keeps no replay in its checkpoints: " +
                (settings.save_replay ? "it learns from what it just collected, or from a dataset"
                                      : "train.save_replay was false"));
  const std::string checkpoint = CheckpointStore(folder, 0).newest_valid();
  if (checkpoint.empty())
    throw Error("[" + folder + "] holds no valid checkpoint; train longer or resume the run");
  load_checkpoint(checkpoint, identity_of(*experiment),
                  [&](StateVisitor& v) { trainer.visit_state(v); });
  const int64_t rows =
      write_dataset(file, experiment->env().name, trainer.envs().spec(), *trainer.store().replay());
  std::printf(
      "%s holds %lld rows of %s; `maglev train <algorithm> %s train.dataset=%s` learns from "
      "them\n",
      file.c_str(), static_cast<long long>(rows), experiment->env().name, experiment->env().name,
      file.c_str());
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
