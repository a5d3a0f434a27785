#pragma once
// Which of the processor's instructions kernels use: the best there are, or fewer, so that tests on
// one machine run what other machines would.

#include <cstdint>
#include <string>

namespace maglev {

/// Holds all kernels to the instructions MAGLEV_SIMD names (sse4, avx2, avx512; on ARM neon), where
/// it is set. Call once, before any kernel runs. Throws Error where the name is unknown on this kind
/// of processor, or this one has no such instructions.
void limit_simd();

/// Whether it has: then what is newer than all it can name (tiles) is not used either.
bool simd_is_limited();

/// While it lives kernels use these of the processor's instructions, Highway's bits, tiles aside;
/// then again those that they used before. No kernel may run on another thread as it comes or goes.
class SimdTargets {
 public:
  explicit SimdTargets(int64_t targets);
  ~SimdTargets();
  SimdTargets(const SimdTargets&) = delete;
  SimdTargets& operator=(const SimdTargets&) = delete;

 private:
  int64_t before_;
};

/// Whether kernels may use 512-bit vectors.
bool simd_has_avx512();
/// Whether kernels round products and sums together: with it their results are the same bits on
/// every processor, without it others.
bool simd_has_fma();

/// What kernels run with now: "avx512", "avx2", "sse4", "neon", or in plain C++ "less".
std::string simd_name();

}  // namespace maglev
