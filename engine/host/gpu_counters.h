#pragma once
// What counters on one NVIDIA GPU say of its parts: NVML's GPM, of Hopper and later by drivers from
// 520 on. It wants no rights, profiler or daemon, and slows nothing down.

#include <array>
#include <limits>

#include "engine/host/gpu_library.h"

namespace maglev {

/// Shares, 0 to 1, of the time between two looks, of the whole device; NaN: not told.
struct GpuShares {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  double multiprocessors = kUnknown;  ///< that had a warp, of all of them
  double tensor_cores = kUnknown;     ///< of the time in which theirs worked
  double bandwidth = kUnknown;        ///< of its memory's
};

class GpuCounters {
 public:
  /// Of `device`, a handle of the library's; both outlive it. Without counters it tells nothing.
  GpuCounters(const OpenLibrary& nvml, void* device);
  ~GpuCounters();
  GpuCounters(const GpuCounters&) = delete;
  GpuCounters& operator=(const GpuCounters&) = delete;

  /// Of the time since the call before; the first tells nothing. Throws nothing.
  GpuShares take();

 private:
  const OpenLibrary& nvml_;
  void* device_;
  std::array<void*, 2> looks_ = {};  ///< the last one and room for the next; null: no counters
  bool looked_ = false;
};

}  // namespace maglev
