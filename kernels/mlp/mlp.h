#pragma once
// Small fully connected networks, forward and backward, a panel of rows at a time: everything a
// panel needs stays in the cache, and nothing is dispatched between the layers. On a device whole
// networks run tile by tile (kernels/actor_critic).
//
// A panel holds up to 64 rows feature-major: x[f * stride + r] is feature f of row r. One SIMD lane
// is one row, so layers of any width use whole vectors, weights are read as they are stored, and a
// row's result never depends on the rows that come with it. `stride` is a multiple of 16, pointers
// are aligned to 64 bytes; columns from `rows` to `stride` are padding of any finite content.

#include <cstdint>
#include <span>

#include "base/simd/panel.h"

namespace maglev {

/// Stride of a panel of `rows` rows, in floats.
constexpr int64_t panel_stride(int64_t rows) { return (rows + 15) / 16 * 16; }

enum class Activation : int32_t { none, tanh, relu, silu };

/// A layer's weight rounded to pairs of bfloat16 (kernels/dense/dense_bf16.h).
struct PairWeights {
  uint32_t* forward = nullptr;  ///< [pair_blocks_size(out, words_of(in))]
  uint32_t* back = nullptr;     ///< its transpose, [pair_blocks_size(in, words_of(out))]
};

/// y = activation(W x + b), in torch's layout.
struct DenseLayer {
  const float* weight;  ///< [out, in]
  const float* bias;    ///< [out]
  int64_t in, out;
  Activation activation;
  /// Where there are any, products take pairs, their sums and all else f32. Wants
  /// pair_products_available().
  PairWeights pairs = {};
};

/// Words of a row of `features` features in pairs.
constexpr int64_t words_of_features(int64_t features) { return (features + 1) / 2; }
/// Whether pairs pay for such a layer: narrow ones are sums, not products.
constexpr bool pairs_pay(int64_t in, int64_t out) { return in >= 16 && out >= 16; }
enum class PairSide { forward, back };
/// Writes that side of layer.pairs from its weight, which is finite.
void round_to_pairs(const DenseLayer& layer, PairSide side);

/// Where a layer's gradients are added.
struct DenseGrad {
  float* weight;  ///< [out, in]
  float* bias;    ///< [out]
};

/// One panel through a stack of layers.
struct MlpForward {
  std::span<const DenseLayer> layers;
  const float* x;       ///< [in][stride]
  float* const* y;      ///< a layer's output each, [out][stride], written
  float* const* slope;  ///< d y / d (W x + b), [out][stride], written for silu layers; null where
                        ///< no backward pass follows
  int64_t stride, rows;
  /// The inputs of layers with pairs, [words_of_features(in)][stride], written; else not read.
  uint32_t* const* words = nullptr;
};
void mlp_forward_cpu(const MlpForward& args);

/// The gradient of a panel back through the stack.
struct MlpBackward {
  std::span<const DenseLayer> layers;
  std::span<const DenseGrad> grad;
  const float* x;             ///< [in][stride]
  const float* const* y;      ///< as forward left them
  const float* const* slope;  ///< likewise
  float* const* dy;     ///< a layer's d loss / d y each, [out][stride]; the last one is given with
                        ///< zeros in padding columns, all are overwritten
  float* dx;            ///< d loss / d x [dx_features][stride]; null: not wanted
  int64_t dx_features;  ///< how many of the first layer's inputs need it
  float* scratch;       ///< [kPanelRows * widest input rounded up to 16]
  int64_t stride, rows;
  const uint32_t* const* words = nullptr;  ///< as forward left them
  uint32_t* pair_scratch = nullptr;        ///< [pair_scratch_size] of every layer with pairs
};
/// Words to work in on the way back through such a layer of pairs.
int64_t pair_scratch_size(int64_t in, int64_t out);
void mlp_backward_cpu(const MlpBackward& args);

}  // namespace maglev
