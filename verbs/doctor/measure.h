#pragma once
// Two figures of this machine, measured in well under a second: how fast it multiplies and how fast
// it moves memory.

namespace maglev::verbs::doctor {

struct Measured {
  double gflops = 0;  ///< f32 matrix products, all threads together, 10^9 operations a second
  double gigabytes_s =
      0;  ///< a[i] = b[i] + s * c[i] over arrays larger than caches, 10^9 bytes a second
  double seconds = 0;  ///< measuring took
};

/// 10^9 operations a second of f32 matrix products that fit a core's second-level cache, of all
/// threads together.
double matrix_product_gflops(int threads);

/// Runs on `threads` threads as training does: each thread multiplies matrices of its own. `bytes`
/// of memory are taken for the second figure. Seconds are those of each thread's processor.
Measured measure(int threads, long bytes);

}  // namespace maglev::verbs::doctor
