#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// Every tensor f32 on one device, in which a row's elements lie together, or those of a block:
/// [rows, n] with any stride between rows, or [blocks, rows, n / blocks] with any strides before
/// the last.
///   x       product, [rows, n]; becomes pre = x + bias
///   bias, scale  [n], or [groups, n]: rows take turns among them
///   out     silu(pre * inverse * scale), written
///   inverse [rows], written: 1 / sqrt(mean(pre^2) + eps)
/// Graph-safe.
void norm_silu_(at::Tensor& x, const at::Tensor& bias, const at::Tensor& scale, double eps,
                at::Tensor& out, at::Tensor& inverse);

/// What norm_silu_ left, and the gradient of `out`.
struct NormSiluGrad {
  const at::Tensor &pre, &inverse, &scale, &d_out;
};
/// Writes the gradient of pre (summed over rows, of the bias), and each row's part of the scale's
/// into `d_scale`, which may be where d_out is if both lie alike.
void norm_silu_back(const NormSiluGrad& args, at::Tensor& d_pre, at::Tensor& d_scale);

/// The same in ATen, of rows x + bias [rows, n], also in f64.
at::Tensor norm_silu_reference(const at::Tensor& pre, const at::Tensor& scale, double eps);

}  // namespace maglev
