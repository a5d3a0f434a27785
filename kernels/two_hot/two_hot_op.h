#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/two_hot/two_hot.h"

namespace maglev {

/// Cross-entropy of each row to the two-hot code of its target, differentiable with respect to
/// logits [..., bins] f32; target [...] f32 gets no gradient. Returns [...] f32.
at::Tensor two_hot_loss(const at::Tensor& logits, const at::Tensor& target, const TwoHotBins& bins);

/// The same outside autograd, of rows [..., bins] f32, contiguous, as many as targets [n] or a
/// multiple k: row r takes target and weight r % n. Returns losses [k, n]; `logits` become scale *
/// weight * their gradients. Graph-safe.
at::Tensor two_hot_loss_back_(at::Tensor& logits, const at::Tensor& target,
                              const at::Tensor& weight, double scale, const TwoHotBins& bins);
/// symexp of the bins' mean under softmax(logits) of [..., bins] f32, contiguous: [...]. Not
/// differentiable; graph-safe.
at::Tensor two_hot_value(const at::Tensor& logits, const TwoHotBins& bins);
/// `logits` become scale * d_value * their gradients; row r takes d_value [n] r % n. Graph-safe.
void two_hot_value_back_(at::Tensor& logits, const at::Tensor& d_value, double scale,
                         const TwoHotBins& bins);

/// The loss in ATen, also in f64.
at::Tensor two_hot_loss_reference(const at::Tensor& logits, const at::Tensor& target,
                                  const TwoHotBins& bins);

/// symexp of the bins' mean under softmax(logits): [..., bins] -> [...], in ATen, also in f64.
at::Tensor two_hot_value_reference(const at::Tensor& logits, const TwoHotBins& bins);

}  // namespace maglev
