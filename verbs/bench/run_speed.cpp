#include "verbs/bench/run_speed.h"

#include <torch/cuda.h>

#include "base/config/choice.h"
#include "base/core/clock.h"
#include "engine/host/machine.h"
#include "engine/train/fastest_precision.h"
#include "engine/train/trainer.h"

namespace maglev::verbs::bench {

RunSpeed measure_run(Experiment& experiment, int rounds, double seconds) {
  claim_threads();
  const RunOptions& run = experiment.run;
  const Placement placement =
      settle_precision(experiment, place(run.device, run.threads, run.precision));
  Trainer trainer(experiment, placement);
  reach_steady(trainer);
  const auto wait = [&] {
    if (placement.device.is_cuda()) torch::cuda::synchronize(placement.device.index());
  };
  trainer.iterate();
  wait();
  RunSpeed speed{
      .step = {.suite = "run",
               .name = std::string(experiment.algo().name) + "_" + experiment.env().name},
      .device = placement.device.str() + ", " + std::to_string(placement.threads) +
                (placement.threads == 1 ? " thread, " : " threads, ") +
                name_of(placement.precision)};
  for (int r = 0; r < rounds; ++r) {
    const int64_t first = trainer.step();
    const double begin_s = steady_s();
    double took_s = 0;
    while (took_s < seconds) {
      trainer.iterate();
      wait();
      took_s = steady_s() - begin_s;
    }
    speed.step.seconds.push_back(took_s / double(trainer.step() - first));
  }
  return speed;
}

}  // namespace maglev::verbs::bench
