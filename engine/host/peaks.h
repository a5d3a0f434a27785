#pragma once
// What this machine does at best, measured in about a second: multiply-adds, products of matrices
// in each type, a function of values, moving memory, handing work and data to threads, and what a
// GPU adds: copies and launches.

#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace maglev {

/// Products of matrices by torch in one type.
struct ProductPeak {
  std::string type;   ///< "fp64", "fp32", "bf16" or "fp16"
  double gflops = 0;  ///< 10^9 operations a second
};

/// Of a processor all threads together, in seconds of each thread's own processor time, which other
/// programs do not shorten. Of a device the clock's. 0: not measured.
struct Peaks {
  double multiply_add_gflops = 0;     ///< f32, in registers: no f32 product of matrices is faster
  std::vector<ProductPeak> products;  ///< of the device
  double tanh_gigavalues_s = 0;       ///< 10^9 f32 values a second through tanh, in the first cache
  /// a[i] = b[i] + s * c[i] over arrays larger than caches, 10^9 bytes a second
  double gigabytes_s = 0;
  /// Of what another thread has just written, 10^9 bytes a second that each reads; 0: there is no
  /// other, or not a processor for each.
  double shared_gigabytes_s = 0;        ///< in blocks of 32 KiB, which its first cache held
  double shared_large_gigabytes_s = 0;  ///< of 512 KiB
  double hand_off_us = 0;  ///< from handing out until every thread has begun a block; 1 thread: 0
  double device_gigabytes_s = 0;  ///< the same sum on the device, read and written
  double to_device_gigabytes_s = 0, to_host_gigabytes_s = 0;  ///< from and to pinned memory
  double launch_us = 0;  ///< the host's time of a launch, of many in a row
  double seconds = 0;    ///< measuring took
};

/// What one thread does at best: what bounds a kernel on a processor (the roofline model, Williams,
/// Waterman and Patterson, 2009).
struct ThreadPeaks {
  double gflops = 0;       ///< 10^9 operations a second, f32 multiply-adds in registers
  double gigabytes_s = 0;  ///< 10^9 bytes a second read and written, of arrays larger than caches
};
/// In half a second of the calling thread.
ThreadPeaks measure_one_thread();

/// What `threads` threads of the calling process do as training does: each multiplies matrices of
/// its own, that fit a core's second-level cache. `bytes` of memory are taken for the bandwidths.
/// Where `device` is CUDA, products are the device's and its own figures are measured, too.
Peaks measure_peaks(int threads, long bytes, at::Device device);

/// 10^9 operations a second of f32 multiply-adds that wait for nothing, of all threads together.
double multiply_add_gflops(int threads);

}  // namespace maglev
