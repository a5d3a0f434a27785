#pragma once
// Fills arrays with counter-based random numbers: element (i, j) of [rows, width] is a function of
// the seed, the purpose, its row's index in the whole run and the step, so threads, blocks and
// devices never show.

#include <cstdint>

#include "base/core/permute.h"
#include "base/core/philox.h"

namespace maglev {

struct PhiloxFill {
  uint64_t seed;
  Purpose purpose;
  int64_t first_row;  ///< index of row 0 in the whole run
  int64_t step;       ///< below 2^48 with *base
  int64_t rows, width;
  /// Added to `step` where not null; where the kernel runs. A captured graph counts steps there.
  const int64_t* base = nullptr;
  /// [rows] the index of each row, in place of first_row + r; null: those. Where the kernel runs.
  const int64_t* index = nullptr;
};

/// Which permutation of [0, n): number `counter`, plus `*base` where that is not null.
struct PermutationKey {
  uint64_t seed;
  int64_t counter;
  int64_t n;
  const int64_t* base = nullptr;
};

MAGLEV_HD Permutation permutation_of(const PermutationKey& key) {
  return Permutation(key.seed, uint64_t(key.counter + (key.base ? *key.base : 0)), uint64_t(key.n));
}

/// out [rows, width] f32, uniform in (0, 1).
void philox_uniform_cpu(const PhiloxFill& fill, float* out);
/// out [rows, width] f32, standard normal (Box-Muller).
void philox_normal_cpu(const PhiloxFill& fill, float* out);

/// out[i] = permutation_of(key)(first + i), i in [0, count).
void permutation_cpu(const PermutationKey& key, int64_t first, int64_t count, int64_t* out);

/// The same on `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int permutation_cuda(const PermutationKey& key, int64_t first, int64_t count, int64_t* out,
                     void* stream);
int philox_uniform_cuda(const PhiloxFill& fill, float* out, void* stream);
int philox_normal_cuda(const PhiloxFill& fill, float* out, void* stream);

/// Block `j` of a row's numbers at a step.
MAGLEV_HD PhiloxBlock philox_row_block(const PhiloxFill& f, int64_t row, int64_t j) {
  const int64_t index = f.index ? f.index[row] : f.first_row + row;
  return philox(f.seed, stream_id(f.purpose, uint64_t(index)),
                (uint64_t(f.step + (f.base ? *f.base : 0)) << 16) | uint64_t(j));
}

/// Uniform in (0, 1): never 0, so that its logarithm is finite.
MAGLEV_HD float open_uniform(uint32_t word) {
  return (float(word >> 9) + 0.5f) * (1.f / 8388608.f);
}

}  // namespace maglev
