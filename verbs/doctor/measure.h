#pragma once
// What this machine does at best, measured in well under a second: multiply-adds, products of
// matrices, and moving memory.

namespace maglev::verbs::doctor {

struct Measured {
  double multiply_add_gflops = 0;  ///< f32, in registers, all threads, 10^9 operations a second
  double product_gflops = 0;       ///< torch's f32 matrix products, likewise
  /// a[i] = b[i] + s * c[i] over arrays larger than caches, 10^9 bytes a second
  double gigabytes_s = 0;
  double seconds = 0;  ///< measuring took
};

/// 10^9 operations a second of f32 multiply-adds that wait for nothing, of all threads together: no
/// f32 product of matrices is faster.
double multiply_add_gflops(int threads);

/// Runs on `threads` threads as training does: each thread multiplies matrices of its own, that fit a
/// core's second-level cache. `bytes` of memory are taken for the last figure. Seconds are those of
/// each thread's processor.
Measured measure(int threads, long bytes);

}  // namespace maglev::verbs::doctor
