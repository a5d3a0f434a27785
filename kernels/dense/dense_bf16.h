#pragma once
// The layer of dense.h with weights and activations in bfloat16 and sums in f32, on processors that
// multiply pairs of bfloat16 in one instruction (pair_products_available()).
//
// A panel of pairs holds two features in each word: word [f / 2 * stride + r] is feature f of row r
// in its lower half and feature f + 1 in its upper half, f even. Weights lie in blocks
// (base/simd/pairs.h), a row an output.

#include <cstdint>
#include <span>

#include "base/simd/pairs.h"
#include "kernels/dense/dense.h"

namespace maglev {

/// Rounds the weights of some inputs to nearest even and packs them in blocks, from a whole block
/// of words on; an odd last input is paired with zeros. Steps in and 1 of torch's [out, in] pack
/// it, steps 1 and in its transpose: one of them is 1. Weights are finite.
struct DensePackBf16 {
  const float* weight;  ///< of the first of these inputs; steps as in DensePack
  int64_t out, in;
  int64_t out_step, in_step;
  int64_t pairs;     ///< of the whole layer
  int64_t first;     ///< pair these inputs begin at, a multiple of kPairBlock
  uint32_t* packed;  ///< [pair_blocks_size(out, pairs)], written where these inputs lie
};
void pack_dense_bf16(const DensePackBf16& args);

/// x [features][stride] to pairs, rounded to nearest even: columns up to the next multiple of 16
/// behind `rows`. x is finite.
void panel_to_pairs(const float* x, int64_t features, int64_t stride, int64_t rows,
                    uint32_t* pairs);

struct DenseSegmentBf16 {
  const uint32_t* x;  ///< [pairs][stride]
  int64_t first;      ///< a multiple of kPairBlock
  int64_t pairs;
};

/// Most segments a layer of pairs has.
constexpr int64_t kMostSegments = 4;

/// As DenseForward; a row's result does not depend on its place, on other rows nor on `rows`. Ends
/// are made to the precision that is kept: exponentials and quotients to fourteen bits.
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

/// The end of dense_bf16_cpu alone: LayerNorm, and Mish or SimNorm, to pairs. Runs anywhere; within
/// the last bit of bfloat16.
struct DensePairsEnd {
  DenseEnd end;  ///< mish or simnorm
  int64_t out;
  const float *gain, *shift;
  const float* sums;  ///< [out][stride]
  uint32_t* y;        ///< [out / 2][stride], written
  int64_t stride, rows;
};
void dense_pairs_end_cpu(const DensePairsEnd& args);

}  // namespace maglev
