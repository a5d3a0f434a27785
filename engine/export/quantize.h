#pragma once
// Large products of an exported model in 8 bits. Weights lie in the file as int8, with a scale for
// each output; what they are multiplied with is rounded to 8 bits as the model runs, one scale for
// all rows of a call (DynamicQuantizeLinear), and sums are of whole numbers (MatMulInteger).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/onnx/model.h"

namespace maglev {

/// Products with fewer weights gain nothing by it: rounding what goes in costs what the product
/// saves (docs/exporting.md). Nor do those with fewer inputs or outputs.
constexpr int64_t kLeastQuantizedWeights = 128 * 128, kLeastQuantizedSide = 64;

/// The greatest weight. Processors without VNNI add pairs of products in 16 bits, which end at
/// 32,767: 2 * 255 * 64 is below, 2 * 255 * 127 is not and would be cut there.
constexpr int64_t kMostQuantizedWeight = 64;

/// Weights [..., K, N]: `numbers` in -64..64 times `scales` [..., 1, N], each at most half a scale
/// off. A column of zeros, or of numbers below f32's normal ones, is zeros of scale 1.
struct QuantizedWeights {
  std::vector<int8_t> numbers;
  std::vector<float> scales;
};
/// Throws Error where a weight is not finite.
QuantizedWeights quantized_weights(std::span<const float> weights, int64_t K, int64_t N);

/// What became of a model's products by constant weights, convolutions aside.
struct Quantized {
  int64_t products = 0, weights = 0;  ///< in 8 bits
  int64_t small = 0;                  ///< in f32, as are the next two: few weights
  int64_t first = 0;                  ///< they take what is measured
  int64_t last = 0;         ///< nothing rounds off what they decide: heads, a memory's gates
  int64_t f32_weights = 0;  ///< of small, first and last
};

/// Puts `model`'s large products by constant weights (Gemm, MatMul) in 8 bits, but those that take
/// an input of `measured`, whose columns have units of their own, with no other product between,
/// and those with none between them and an output. Names of inputs and outputs stay, and so does
/// the opset. Throws Error where a weight is not finite.
Quantized quantize(onnx::Model& model, const std::vector<std::string>& measured);

}  // namespace maglev
