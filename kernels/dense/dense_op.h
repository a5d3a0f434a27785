#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/dense/dense.h"

namespace maglev {

/// x [N, rows, G, features] -> y [N, rows, G, features], views of any strides whose features are
/// contiguous, f32 or bf16: LayerNorm of x + start over the features, then Mish or SimNorm, in one
/// pass. The two may be the same tensor.
///   features a multiple of kSimNormGroup, on CUDA at most 4096
///   start [N or 1, G, features] f32, or undefined     gain, shift [N or 1, G, features] f32
/// Not differentiable. Graph-safe on CUDA; a CPU's allocates.
/// Throws Error if a shape or dtype differs.
void dense_end_(const at::Tensor& y, const at::Tensor& x, const at::Tensor& start,
                const at::Tensor& gain, const at::Tensor& shift, DenseEnd end);

/// The end of x [..., features] in plain ATen, differentiable; DenseEnd::none returns x.
at::Tensor dense_end_reference(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& shift,
                               DenseEnd end);

}  // namespace maglev
