#pragma once
// Back through the end of layers on rows; and cases of dense_grad.h's kernels that lie in files of
// their own.

#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/device/kernel.h"
#include "kernels/dense/dense_op.h"

namespace maglev {

/// Gradients of an end as dense_end_ ran it, N = 1, x still as it was: of y into d [1, rows, G,
/// features], x's dtype and alignment, whose place that of x takes. `parts` [end_grad_parts(rows),
/// G, 3, features] f32, contiguous, or undefined: of start, gain and shift, for dense_end_fold.
/// Graph-safe on CUDA; a CPU's allocates.
void dense_end_grad_(const at::Tensor& d, const DenseEndTensors& in, const at::Tensor& parts);
/// Adds the sums of parts [n, G, 3, features] to gradients [G, 1, features] f32, in one order.
void dense_end_fold(const at::Tensor& parts, const at::Tensor& d_start, const at::Tensor& d_gain,
                    const at::Tensor& d_shift);

/// Of ends on rows.
std::vector<KernelCase> dense_end_grad_cases(at::Device device);

/// Of a layer in bfloat16 (dense_grad_bf16.h), where this processor has its products.
std::vector<KernelCase> dense_grad_bf16_cases();

}  // namespace maglev
