#include "engine/host/gpu_counters.h"

#include <algorithm>
#include <utility>

namespace maglev {
namespace {

// by their numbers in NVML
constexpr unsigned kMultiprocessors = 2, kTensorCores = 5, kBandwidth = 10;

// beyond it is a mistake, and not a full part measured somewhat late
constexpr double kMostPercent = 105;

double share_of(const NvmlGpmMetric& metric) {
  const bool told = metric.error == 0 && metric.value >= 0 && metric.value <= kMostPercent;
  return told ? std::min(1., metric.value / 100) : GpuShares::kUnknown;
}

}  // namespace

GpuCounters::GpuCounters(const OpenLibrary& nvml, void* device) : nvml_(nvml), device_(device) {
  NvmlGpmSupport support{.version = 1};
  if (!nvml_.call("nvmlGpmQueryDeviceSupport", device_, &support) || !support.supported) return;
  for (void*& look : looks_)
    if (!nvml_.call("nvmlGpmSampleAlloc", &look)) look = nullptr;
}

GpuCounters::~GpuCounters() {
  for (void* look : looks_)
    if (look) nvml_.call("nvmlGpmSampleFree", look);
}

GpuShares GpuCounters::take() {
  if (!looks_[0] || !looks_[1]) return {};
  // a look that failed is none to begin from
  const bool before = std::exchange(looked_, nvml_.call("nvmlGpmSampleGet", device_, looks_[1]));
  NvmlGpmMetrics asked{.version = 1, .count = 3, .from = looks_[0], .to = looks_[1]};
  asked.metrics[0].id = kMultiprocessors;
  asked.metrics[1].id = kTensorCores;
  asked.metrics[2].id = kBandwidth;
  std::swap(looks_[0], looks_[1]);
  if (!before || !looked_ || !nvml_.call("nvmlGpmMetricsGet", &asked)) return {};
  return {.multiprocessors = share_of(asked.metrics[0]),
          .tensor_cores = share_of(asked.metrics[1]),
          .bandwidth = share_of(asked.metrics[2])};
}

}  // namespace maglev
