// maglev train: trains an agent.

#include <cstdio>
#include <cstdlib>

#include "engine/core/error.h"
#include "engine/host/machine.h"
#include "engine/train/trainer.h"
#include "verbs/verb.h"

namespace maglev::verbs::train {
namespace {

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) throw Error("usage: maglev train <algorithm> <environment> [setting=value ...]");
  claim_threads();
  Experiment experiment(arguments[0], arguments[1]);
  if (const char* home = std::getenv("MAGLEV_HOME")) experiment.load_proven(home);
  for (size_t i = 2; i < arguments.size(); ++i) experiment.table().override_with(arguments[i]);
  Trainer trainer(experiment, place(experiment.run.device, experiment.run.threads));
  while (!trainer.done()) {
    trainer.iterate();
    if (!trainer.flush_due()) continue;
    MetricRow row = trainer.flush();
    std::printf("%ld %.1fs %.0f/s return %.2f episodes %ld", row.step, row.seconds, row.steps_per_second,
                row.return_mean, row.episodes);
    for (auto& [name, value] : row.values) std::printf(" %s=%.4g", name.c_str(), value);
    std::printf("\n");
  }
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "train", .summary = "train an agent", .usage = "train <algorithm> <environment>", .run = run};
}

}  // namespace maglev::verbs::train
