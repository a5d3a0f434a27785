#pragma once
// Numbered random numbers: number `index` of a stream is a function of seed, stream and index
// alone, so that whoever needs numbers [first, first + count) draws them alone, in any order, on
// any thread or device.

#include <cmath>
#include <cstdint>

#include "base/core/philox.h"

namespace maglev {

/// Numbers of `rows` streams: row r holds numbers [first, first + count) of stream_of(fill, r).
struct NoiseFill {
  uint64_t seed;
  uint64_t stream;  ///< of row 0, or of index 0, as stream_id gives it
  uint64_t first;   ///< index of each row's first number
  int64_t rows, count;
  /// *base * base_scale is added to `first` where base is not null; where the kernel runs. A
  /// captured graph counts there.
  const int64_t* base = nullptr;
  uint64_t base_scale = 0;
  /// [rows] the index of each row, added to `stream`; null: 0, 1, ... Where the kernel runs.
  const int64_t* index = nullptr;
};

MAGLEV_HD uint64_t stream_of(const NoiseFill& f, int64_t row) {
  return f.stream + uint64_t(f.index ? f.index[row] : row);
}

/// Index of each row's first number with what `base` adds.
MAGLEV_HD uint64_t first_index(const NoiseFill& f) {
  return f.first + (f.base ? uint64_t(*f.base) * f.base_scale : 0);
}

/// Word index % 4 of the Philox block at counter index / 4 decides number `index`.
MAGLEV_HD uint32_t noise_word(const PhiloxBlock& block, uint64_t index) {
  return block.word[index % 4];
}

/// 23 bits, in (0, 1): never 0, so that its logarithm is finite.
MAGLEV_HD float noise_uniform(uint32_t word) {
  return (float(word >> 9) + 0.5f) * (1.f / 8388608.f);
}

/// Uniform number `index` of a stream, in (0, 1).
MAGLEV_HD float uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return noise_uniform(noise_word(philox(seed, stream, index / 4), index));
}

/// Standard normal number `index` of a stream: Box and Muller's, the cosine at even indices and the
/// sine of the same angle at odd ones. Largest 5.8.
MAGLEV_HD float normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const PhiloxBlock block = philox(seed, stream, index / 4);
  const float radius = sqrtf(-2.f * logf(noise_uniform(noise_word(block, index & ~1ull))));
  const float angle = 6.28318530717958648f * noise_uniform(noise_word(block, index | 1));
  return radius * (index % 2 == 0 ? cosf(angle) : sinf(angle));
}

/// out [rows, count] f32. The uniforms are those of uniform() to the bit; normals are those of
/// normal() to within 3e-6, and the same bits in whatever range they are drawn.
void noise_uniform_cpu(const NoiseFill& fill, float* out);
void noise_normal_cpu(const NoiseFill& fill, float* out);

/// The same on `stream` (a cudaStream_t); return a cudaError_t. Only in builds with device code.
int noise_uniform_cuda(const NoiseFill& fill, float* out, void* stream);
int noise_normal_cuda(const NoiseFill& fill, float* out, void* stream);

}  // namespace maglev
