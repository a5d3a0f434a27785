#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/two_hot/two_hot.h"

namespace maglev {

/// Cross-entropy of each row to the two-hot code of its target, differentiable with respect to
/// logits [..., bins] f32; target [...] f32 gets no gradient. Returns [...] f32.
at::Tensor two_hot_loss(const at::Tensor& logits, const at::Tensor& target, const TwoHotBins& bins);

/// The same in ATen, also in f64.
at::Tensor two_hot_loss_reference(const at::Tensor& logits, const at::Tensor& target,
                                  const TwoHotBins& bins);

/// symexp of the bins' mean under softmax(logits): [..., bins] -> [...], in ATen, also in f64.
at::Tensor two_hot_value_reference(const at::Tensor& logits, const TwoHotBins& bins);

}  // namespace maglev
