#include "verbs/bench/run_speed.h"

#include <torch/cuda.h>

#include <sys/resource.h>

#include "base/config/choice.h"
#include "base/core/clock.h"
#include "base/core/printed.h"
#include "engine/device/device.h"
#include "engine/host/machine.h"
#include "engine/train/fastest_precision.h"
#include "engine/train/memory_plan.h"
#include "engine/train/store.h"
#include "engine/train/trainer.h"

namespace maglev::verbs::bench {

namespace {

// more than any measurement takes
constexpr int64_t kMoreSteps = 1'000'000'000'000;

// as long as is measured, with the replay of the run's own length
void lengthen(Experiment& experiment, const Placement& placement) {
  RunOptions& run = experiment.run;
  ThreadPool pool(1);
  const AlgoContext context = context_of(experiment, placement, pool);
  if (const auto plan = experiment.algo().plan) {
    const DataPlan made = plan(experiment.algo_options(), context);
    if (made.replay && run.dataset.empty())
      run.replay_capacity =
          replay_shape(run, *made.replay,
                       {.T = made.collect_steps, .rows = context.rows, .block_rows = context.rows})
              .capacity;
  }
  run.steps = kMoreSteps;
}

int64_t peak_bytes_here() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return int64_t(used.ru_maxrss) * 1024;
}

}  // namespace

RunSpeed measure_run(Experiment& experiment, int rounds, double seconds) {
  claim_threads();
  const RunOptions& run = experiment.run;
  const Placement asked = place(run.device, run.threads, run.precision);
  fit_memory(experiment, asked, /*note=*/nullptr);
  lengthen(experiment, asked);
  const Placement placement = settle_precision(experiment, asked);
  const double made_s = steady_s();
  Trainer trainer(experiment, placement);
  reach_steady(trainer);
  const auto wait = [&] {
    if (placement.device.is_cuda()) torch::cuda::synchronize(placement.device.index());
  };
  trainer.iterate();
  wait();
  const double warmup_s = steady_s() - made_s;
  RunSpeed speed{
      .step = {.suite = "run",
               .name = std::string(experiment.algo().name) + "_" + experiment.env().name},
      .warmup_s = warmup_s,
      .device = placement.device.str() + ", " + counted(placement.threads, "thread") + ", " +
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
  speed.steps_per_iteration = trainer.steps_per_iteration();
  speed.peak_bytes = peak_bytes_here();
  if (placement.device.is_cuda()) speed.device_peak_bytes = device_memory().peak_reserved;
  return speed;
}

}  // namespace maglev::verbs::bench
