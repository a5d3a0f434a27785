#include "python/bindings/monitoring.h"

#include <cmath>
#include <limits>

#include <c10/core/DeviceGuard.h>

#include "engine/host/usage.h"

namespace maglev::python {
namespace {

// tensors of a loop of somebody else's are torch's on a processor, which does not count them
constexpr GrowthWords kWords{
    .in_no_tensor = "in tensors on the processor, in objects of Python or in a library",
    .shown = "memory/* of the samples show since when"};

}  // namespace

LoopMonitor::LoopMonitor(double every_s, int64_t planned, at::Device device)
    : began_(std::chrono::steady_clock::now()),
      gpu_(meter_of(device)),
      monitor_(
          // a run's monitor takes 0 for never
          every_s > 0 ? every_s : std::numeric_limits<double>::min(), {.host = planned}, Load{},
          [] { return sample_usage(); },
          [device] {
            // whichever device this thread is at
            const c10::DeviceGuard guard(device);
            return tensor_memory(device.is_cuda());
          },
          gpu_ ? [this] { return gpu_->sample(); } : std::function<GpuUsage()>(), {}, kWords) {}

LoopMonitor::Sample LoopMonitor::sample(int64_t step) {
  if (step >= 0) step_ = step;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
  MetricRow row{.step = step_, .seconds = passed.count()};
  monitor_.add_to(row);
  std::erase_if(row.values, [](const auto& figure) {
    return std::isnan(figure.second) || figure.first == "memory/tensors_mib";
  });
  return {
      .seconds = row.seconds, .figures = std::move(row.values), .warning = monitor_.take_warning()};
}

}  // namespace maglev::python
