#pragma once
// What one GPU does while a run trains on it, as the library of its driver tells: how busy it is,
// what it draws, how hot and how fast it is. No torch, and no CUDA context.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "engine/host/gpu_counters.h"
#include "engine/host/gpu_library.h"
#include "engine/host/gpus.h"

namespace maglev {

/// Of the whole device, whoever uses it. NaN: not told, or no figure that can be.
struct GpuUsage {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  double at_s = 0;  ///< when, steady clock
  /// Share of the time since the sample before, 0 to 1, in which something ran: full long before
  /// the device is. Where the library keeps none of that time, of its last moment.
  double busy = kUnknown;
  /// The least and the greatest of the library's own samples that `busy` is the mean of; not told
  /// where it keeps none.
  double busy_min = kUnknown, busy_max = kUnknown;
  GpuShares shares;           ///< since the sample before, of devices that count
  double joules = kUnknown;   ///< taken so far; begins anew with the driver
  double watts = kUnknown;    ///< now; of devices that do not count energy
  double celsius = kUnknown;  ///< of the chip
  double mhz = kUnknown;      ///< the clock of its multiprocessors
  double memory = kUnknown;   ///< bytes taken
};

/// From one sample to a later one; NaN: unknown.
double joules_between(const GpuUsage& before, const GpuUsage& after);
/// Their mean, or what the later one says of its moment; NaN: unknown.
double watts_between(const GpuUsage& before, const GpuUsage& after);

class GpuMeter {
 public:
  /// `address`: where the device is on the bus, as CUDA writes it ("0000:17:00.0"). A number would
  /// not do: CUDA's leaves out what CUDA_VISIBLE_DEVICES hides and may have the fastest first, a
  /// library's is the bus's order. One that no library has, whose address several have, or that is
  /// cut into instances (MIG), whose figures are not told apart, is not known. Throws nothing.
  GpuMeter(const std::string& address, const GpuLibraries& libraries);
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  bool known() const { return nvml_ || rocm_; }
  /// Milliseconds at most where a driver is slow to answer; waits for no kernel. Throws nothing.
  GpuUsage sample();

 private:
  bool find_nvidia(const std::string& address);
  bool find_amd(const std::string& address);
  void find_nvidia_busy(GpuUsage& usage);
  void sample_nvidia(GpuUsage& usage);
  void sample_amd(GpuUsage& usage) const;

  std::optional<OpenLibrary> nvml_, rocm_;  ///< the one that knows the device
  std::optional<GpuCounters> counters_;     ///< with NVML
  void* nvidia_ = nullptr;
  uint32_t amd_ = 0;
  unsigned long long seen_ = 0;  ///< time of the newest of NVML's samples that were taken
};

}  // namespace maglev
