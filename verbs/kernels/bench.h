#pragma once
// How fast a kernel's case is beside its reference, and beside what this machine can do at best.

#include <functional>
#include <map>

#include "engine/device/kernel.h"

namespace maglev::verbs::kernels {

/// Seconds one call takes once it is warm: the median of 9 batches of calls. On the CPU the calling
/// thread's processor time, so that other programs count as little as possible; on a device time
/// until it is done.
double median_seconds(const std::function<void()>& work, at::Device device);

/// What one thread of this machine does at best, measured when first asked for.
class Peak {
 public:
  /// Bytes read and written a second by memcpy, in a working set of `bytes` rounded up to a power
  /// of two.
  double bytes_s(int64_t bytes);
  /// f32 operations a second of multiply-adds that wait for nothing.
  double flops_s();

 private:
  std::map<int64_t, double> bytes_s_;
  double flops_s_ = 0;
};

struct BenchResult {
  double reference_s = 0, fused_s = 0;
  /// Least time at the peaks / fused_s: the time copying takes, or computing, whichever is more
  /// (Williams, Waterman and Patterson, "Roofline", 2009). 0 on devices, whose peaks are not
  /// measured.
  double share_of_peak = 0;
};
BenchResult bench_case(const KernelCase& kernel_case, at::Device device, Peak& peak);

/// Times every case of the kernels on every device, on one thread, and prints a line each. Returns
/// the exit status.
int print_bench(const std::vector<KernelEntry>& kernels, const std::vector<at::Device>& devices);

}  // namespace maglev::verbs::kernels
