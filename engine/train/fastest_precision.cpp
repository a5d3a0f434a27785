#include "engine/train/fastest_precision.h"

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include "base/core/clock.h"
#include "base/core/printed.h"
#include "engine/device/device.h"
#include "engine/train/trainer.h"

namespace maglev {
namespace {

constexpr double kWorthwhile = 1.1;
// iterations a precision is measured over: at least so many, and at least so long
constexpr int kMeasured = 2;
constexpr double kMeasured_s = 0.2;

// updates made before anything is measured: libraries set themselves up, graphs are captured
constexpr int64_t kSetUp = 3;

// seconds an iteration takes, once warm
double iteration_s(const Experiment& experiment, Placement placement, Precision precision) {
  placement.precision = precision;
  Trainer trainer(experiment, placement);
  reach_steady(trainer);
  auto synchronize = [&] {
    if (placement.device.is_cuda()) torch::cuda::synchronize(placement.device.index());
  };
  trainer.iterate();
  synchronize();
  // twice as many again while they took less time than is worth trusting
  for (int count = kMeasured;; count *= 2) {
    const double begin_s = steady_s();
    int made = 0;
    for (; made < kMeasured || (made < count && !trainer.done()); ++made) trainer.iterate();
    synchronize();
    const double took_s = steady_s() - begin_s;
    if (took_s >= kMeasured_s || trainer.done()) return took_s / made;
  }
}

}  // namespace

void reach_steady(Trainer& trainer) {
  trainer.warm_up();
  const int64_t enough = trainer.updates() + kSetUp;
  // hundreds may be due at once where collecting ends
  trainer.stop_when([&] { return trainer.updates() >= enough; });
  while (trainer.updates() < enough && !trainer.done()) trainer.iterate();
  trainer.stop_when({});
  trainer.forgive_updates();
}

Precision fastest_of(const std::vector<PrecisionTime>& times) {
  const PrecisionTime* best = &times.front();
  // of two that take about as long the first is taken each time
  for (const PrecisionTime& time : times)
    if (best->seconds > kWorthwhile * time.seconds) best = &time;
  return best->precision;
}

Precision fastest_precision(const Experiment& experiment, const Placement& placement,
                            const std::vector<Precision>& candidates, std::string& why) {
  const DataPlan plan = Trainer(experiment, placement).algorithm().plan();
  std::vector<PrecisionTime> times;
  for (Precision candidate : candidates) {
    if (!plan.offers(candidate)) continue;
    const double s = iteration_s(experiment, placement, candidate);
    // what a trial took is the next one's, and then the run's
    if (placement.device.is_cuda()) release_device_memory();
    why += printed("%s%s %.3g ms", why.empty() ? "an iteration takes " : ", ", name_of(candidate),
                   1e3 * s);
    times.push_back({candidate, s});
  }
  return times.empty() ? candidates.front() : fastest_of(times);
}

Placement settle_precision(Experiment& experiment, Placement placement) {
  if (experiment.run.precision) return placement;
  if (placement.processes > 1) {
    placement.precision_why = "not measured where several processes learn";
  } else if (placement.device.is_cuda()) {
    placement.precision_why.clear();
    placement.precision = fastest_precision(experiment, placement, precisions_of(placement.device),
                                            placement.precision_why);
  }
  experiment.run.precision = placement.precision;
  return placement;
}

}  // namespace maglev
