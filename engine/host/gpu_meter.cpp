#include "engine/host/gpu_meter.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/core/clock.h"

namespace maglev {
namespace {

// beyond these no device is: what a library says there is a mistake, or stands for "unknown"
constexpr double kMostWatts = 1e4, kMostCelsius = 200, kMostMhz = 1e4;
// samples that are asked for at once; drivers keep about a hundred
constexpr unsigned kMostSamples = 1 << 14;

double believed(double value, double least, double most) {
  return value >= least && value <= most ? value : GpuUsage::kUnknown;
}

}  // namespace

double joules_between(const GpuUsage& before, const GpuUsage& after) {
  const double joules = after.joules - before.joules;
  // no device draws nothing: a counter that stands still does not count
  return joules > 0 && joules <= kMostWatts * (after.at_s - before.at_s) ? joules
                                                                         : GpuUsage::kUnknown;
}

double watts_between(const GpuUsage& before, const GpuUsage& after) {
  const double joules = joules_between(before, after);
  return joules > 0 ? joules / (after.at_s - before.at_s) : after.watts;
}

GpuMeter::GpuMeter(const std::string& address, const GpuLibraries& libraries) {
  if (address.empty()) return;
  nvml_.emplace(libraries.nvml);
  if (find_nvidia(address)) return;
  nvml_.reset();
  rocm_.emplace(libraries.rocm_smi);
  if (!find_amd(address)) rocm_.reset();
}

GpuMeter::~GpuMeter() {
  counters_.reset();
  if (nvml_) nvml_->call("nvmlShutdown");
  if (rocm_) rocm_->call("rsmi_shut_down");
}

bool GpuMeter::find_nvidia(const std::string& address) {
  if (!nvml_->call("nvmlInit_v2")) return false;
  if (nvml_->call("nvmlDeviceGetHandleByPciBusId_v2", address.c_str(), &nvidia_)) {
    unsigned instances = 0, later = 0;
    nvml_->call("nvmlDeviceGetMigMode", nvidia_, &instances, &later);
    if (instances == 0) {
      counters_.emplace(*nvml_, nvidia_);
      return true;
    }
  }
  nvml_->call("nvmlShutdown");
  return false;
}

bool GpuMeter::find_amd(const std::string& address) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(address.c_str(), "%x:%x:%x", &domain, &bus, &slot) != 3) return false;
  if (!rocm_->call("rsmi_init", uint64_t(0))) return false;
  uint32_t count = 0;
  int found = 0;
  rocm_->call("rsmi_num_monitor_devices", &count);
  for (uint32_t i = 0; i < count; ++i) {
    // domain, bus and slot; what else is in it numbers the parts of one device
    constexpr uint64_t kPlace = 0xFFFFFFFF'0000FFF8;
    const uint64_t wanted = uint64_t(domain) << 32 | uint64_t(bus) << 8 | uint64_t(slot) << 3;
    uint64_t place = 0;
    if (rocm_->call("rsmi_dev_pci_id_get", i, &place) && (place & kPlace) == wanted)
      amd_ = i, ++found;
  }
  if (found == 1) return true;
  rocm_->call("rsmi_shut_down");
  return false;
}

GpuUsage GpuMeter::sample() {
  GpuUsage usage{.at_s = steady_s()};
  if (nvml_) sample_nvidia(usage);
  if (rocm_) sample_amd(usage);
  return usage;
}

void GpuMeter::find_nvidia_busy(GpuUsage& usage) {
  // the mean of what the driver kept since: one look a sample would meet the loop always at the
  // same place
  std::vector<NvmlSample> samples;
  unsigned count = 0;
  int kind = 0;
  const auto get = [&](NvmlSample* to) {
    return nvml_->call("nvmlDeviceGetSamples", nvidia_, kNvmlUseSamples, seen_, &kind, &count, to);
  };
  if (get(nullptr) && count > 0 && count <= kMostSamples) {
    samples.resize(count);
    if (!get(samples.data()) || kind != kNvmlUnsigned) samples.clear();
    samples.resize(std::min(samples.size(), size_t(count)));
  }
  double sum = 0, number = 0, least = 100, most = 0;
  unsigned long long newest = seen_;
  for (const auto& [time, value] : samples) {
    if (time <= seen_ || value.number > 100) continue;
    const double percent = value.number;
    sum += percent, ++number;
    least = std::min(least, percent), most = std::max(most, percent);
    newest = std::max(newest, time);
  }
  seen_ = newest;
  if (number > 0) {
    usage.busy = sum / number / 100;
    usage.busy_min = least / 100, usage.busy_max = most / 100;
    return;
  }
  // a device that rests may have given it none
  NvmlUse use{};
  if (nvml_->call("nvmlDeviceGetUtilizationRates", nvidia_, &use))
    usage.busy = believed(use.gpu, 0, 100) / 100;
}

void GpuMeter::sample_nvidia(GpuUsage& usage) {
  find_nvidia_busy(usage);
  usage.shares = counters_->take();
  unsigned long long millijoules = 0;
  unsigned number = 0;
  if (nvml_->call("nvmlDeviceGetTotalEnergyConsumption", nvidia_, &millijoules))
    usage.joules = 1e-3 * double(millijoules);
  else if (nvml_->call("nvmlDeviceGetPowerUsage", nvidia_, &number))
    usage.watts = believed(1e-3 * number, 0, kMostWatts);
  if (nvml_->call("nvmlDeviceGetTemperature", nvidia_, kNvmlCore, &number))
    usage.celsius = believed(number, 1, kMostCelsius);
  if (nvml_->call("nvmlDeviceGetClockInfo", nvidia_, kNvmlMultiprocessors, &number))
    usage.mhz = believed(number, 1, kMostMhz);
  NvmlMemory memory{};
  if (nvml_->call("nvmlDeviceGetMemoryInfo", nvidia_, &memory))
    usage.memory = believed(double(memory.used), 0, double(memory.total));
}

void GpuMeter::sample_amd(GpuUsage& usage) const {
  uint32_t percent = 0;
  if (rocm_->call("rsmi_dev_busy_percent_get", amd_, &percent))
    usage.busy = believed(percent, 0, 100) / 100;
  uint64_t count = 0, time = 0;
  float microjoules = 0;
  if (rocm_->call("rsmi_dev_energy_count_get", amd_, &count, &microjoules, &time) &&
      microjoules > 0)
    usage.joules = 1e-6 * double(count) * double(microjoules);
  else if (rocm_->call("rsmi_dev_power_ave_get", amd_, uint32_t(0), &count))
    usage.watts = believed(1e-6 * double(count), 0, kMostWatts);
  // some devices have a sensor where it is hottest alone
  for (const unsigned sensor : {kRocmEdge, kRocmJunction}) {
    int64_t millidegrees = 0;
    if (usage.celsius > 0 ||
        !rocm_->call("rsmi_dev_temp_metric_get", amd_, sensor, kRocmCurrent, &millidegrees))
      continue;
    usage.celsius = believed(1e-3 * double(millidegrees), 1, kMostCelsius);
  }
  uint64_t total = 0, used = 0;
  if (rocm_->call("rsmi_dev_memory_total_get", amd_, kRocmVideoMemory, &total) &&
      rocm_->call("rsmi_dev_memory_usage_get", amd_, kRocmVideoMemory, &used))
    usage.memory = believed(double(used), 0, double(total));
}

}  // namespace maglev
