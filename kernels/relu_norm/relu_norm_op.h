#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// A fully connected layer with LayerNorm behind its ReLU. All f32.
struct ReluNormLayer {
  at::Tensor weight, bias;  ///< [O, F], [O]
  at::Tensor gain, shift;   ///< [O]
};

/// LN(relu(x weight^T + bias)), and for a block (F = O) with x going past it: x + LN(..), both with
/// gradients. x [B, F] f32; returns [B, O] f32. Under autocast the products are of its type.
/// Graph-safe.
at::Tensor relu_norm(const at::Tensor& x, const ReluNormLayer& layer);
at::Tensor relu_norm_block(const at::Tensor& x, const ReluNormLayer& layer);

/// The same in ATen, also in f64.
at::Tensor relu_norm_reference(const at::Tensor& x, const ReluNormLayer& layer);
at::Tensor relu_norm_block_reference(const at::Tensor& x, const ReluNormLayer& layer);

}  // namespace maglev
