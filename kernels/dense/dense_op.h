#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/dense/dense.h"

namespace maglev {

/// LayerNorm over the last dimension of x, then Mish or SimNorm, in place and in one pass.
///   x [..., features] contiguous, f32 or, on CUDA, bf16; features a multiple of kSimNormGroup, on
///   CUDA at most 4096     gain, shift [features] f32
/// Not differentiable. Graph-safe on CUDA; a CPU's allocates. Returns x.
/// Throws Error if a shape or dtype differs.
at::Tensor dense_end_(at::Tensor x, const at::Tensor& gain, const at::Tensor& shift, DenseEnd end);

/// The same in plain ATen, not in place and differentiable; DenseEnd::none returns x.
at::Tensor dense_end_reference(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& shift,
                               DenseEnd end);

}  // namespace maglev
