#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/dense/dense_op.h"
#include "kernels/end_product/end_product.h"

namespace maglev {

/// Rows in front of a product: N environments, R rows of each, G networks.
struct ProductRows {
  DenseEndTensors open = {};  ///< x [N, R, G, features] bf16, its end to come; undefined: none
  at::Tensor ready = {};      ///< [N, R, G, inputs] bf16 as they are, behind those; or undefined
};

/// [end(open), ready] W in bf16 in one launch: [N, R, G, out], laid out as [G, N, R, out] where the
/// environments share weights, as [N, G, R, out] where each has its own.
///   weight [N or 1, G, features + inputs, out] bf16, inputs or outputs side by side, and numbers
///          behind both as end_product.h has it (product_weight)
/// Not differentiable; graph-safe, on CUDA alone. Throws Error if a shape or dtype differs.
at::Tensor end_product(const ProductRows& rows, const at::Tensor& weight);
/// The same in plain ATen: both are rounded where the fused one rounds.
at::Tensor end_product_reference(const ProductRows& rows, const at::Tensor& weight);

/// Weights [..., in, out] of zeros, with the zeros behind them that end_product() wants.
at::Tensor product_weight(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace maglev
