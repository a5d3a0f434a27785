#pragma once
// The layer of dense.h with weights and activations in bfloat16 and sums in f32, on processors that
// multiply pairs of bfloat16 in one instruction.
//
// A panel of pairs holds two features in each word: word [f / 2 * stride + r] is feature f of row r
// in its lower half and feature f + 1 in its upper half, f even.

#include <cstdint>
#include <span>

#include "kernels/dense/dense.h"

namespace maglev {

/// Whether this processor has the instruction (AVX512_BF16); the other functions need it.
bool dense_bf16_available();

/// Words of a packed layer of `pairs` pairs of inputs; packed weights are aligned to 64 bytes.
constexpr int64_t packed_dense_bf16_size(int64_t out, int64_t pairs) {
  return packed_dense_size(out, pairs);
}

/// Rounds the weights of some inputs, which begin a pair, to nearest even and packs them as
/// pack_dense does, a word a pair; an odd last input is paired with zeros.
struct DensePackBf16 {
  const float* weight;  ///< of the first of these inputs; steps as in DensePack
  int64_t out, in;
  int64_t out_step, in_step;
  int64_t pairs;     ///< of the whole layer
  int64_t first;     ///< pair these inputs begin at
  uint32_t* packed;  ///< [packed_dense_bf16_size(out, pairs)], written where these inputs lie
};
void pack_dense_bf16(const DensePackBf16& args);

/// x [features][stride] to pairs, rounded to nearest even: columns up to the next multiple of 16
/// behind `rows`. x is finite.
void panel_to_pairs(const float* x, int64_t features, int64_t stride, int64_t rows,
                    uint32_t* pairs);

struct DenseSegmentBf16 {
  const uint32_t* x;  ///< [pairs][stride]
  int64_t first, pairs;
};

/// As DenseForward; a row's result does not depend on its place, on other rows nor on `rows`.
struct DenseForwardBf16 {
  const uint32_t* weight;  ///< packed
  int64_t pairs, out;
  const float* start;
  int64_t start_step = 1;
  std::span<const DenseSegmentBf16> segments;
  DenseEnd end = DenseEnd::none;
  const float* gain = nullptr;
  const float* shift = nullptr;
  float* sums;            ///< [out][stride], written: the result where there is no end
  uint32_t* y = nullptr;  ///< [out / 2][stride], written where there is an end
  int64_t stride, rows;
};
void dense_bf16_cpu(const DenseForwardBf16& args);

/// The end of dense_bf16_cpu alone: LayerNorm by the sums' moments, and Mish or SimNorm, to pairs.
/// Runs anywhere; within the last bit of bfloat16.
struct DensePairsEnd {
  DenseEnd end;  ///< mish or simnorm
  int64_t out;
  const float *gain, *shift;
  const float* sums;     ///< [out][stride]
  const float* moments;  ///< [2][kPanelRows]: each row's sum over the outputs, and of the squares
  uint32_t* y;           ///< [out / 2][stride], written
  int64_t stride, rows;
};
void dense_pairs_end_cpu(const DensePairsEnd& args);

}  // namespace maglev
