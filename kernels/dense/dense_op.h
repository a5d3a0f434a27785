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

/// What the end of a layer under training reads; see dense_end_.
struct DenseEndTensors {
  at::Tensor x;                   ///< [N, rows, G, features]
  at::Tensor start, gain, shift;  ///< [N or 1, G, features] f32; start may be undefined
  DenseEnd end;
  /// [N, G, rows, features] f32 in [0, 1), contiguous, or undefined: dropout of x + start, where
  /// below `share`.
  at::Tensor uniform = {};
  double share = 0;
};
/// The same of these. `exact` [N, G, rows, features] f32, contiguous, or undefined: y before it is
/// rounded.
void dense_end_(const at::Tensor& y, const DenseEndTensors& in, const at::Tensor& exact = {});
/// As the kernels take it, without y: for who goes back. Throws Error as dense_end_.
DenseEndRows dense_end_rows(const DenseEndTensors& in);

/// The end of x [..., features] in plain ATen, differentiable; DenseEnd::none returns x.
at::Tensor dense_end_reference(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& shift,
                               DenseEnd end);
/// The same of x + start as dense_end_ takes them, without dropout and in f32, where all environments
/// share gain and shift.
at::Tensor dense_end_reference(const DenseEndTensors& in);

}  // namespace maglev
