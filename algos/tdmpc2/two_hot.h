#pragma once
// Discrete regression in symlog space and the policy prior's distribution, as plain functions of
// tensors of any float dtype.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace maglev::tdmpc2 {

at::Tensor symlog(const at::Tensor& x);  ///< sign(x) ln(1 + |x|)
at::Tensor symexp(const at::Tensor& x);  ///< its inverse

/// x [...] as weights [..., kBins] of the two bins beside symlog(x), which is cut to the bins.
at::Tensor two_hot(const at::Tensor& x);
/// Cross-entropy [...] of logits [..., kBins] against two_hot(x), x [...].
at::Tensor two_hot_loss(const at::Tensor& logits, const at::Tensor& x);
/// The value [...] that logits [..., kBins] stand for.
at::Tensor two_hot_inverse(const at::Tensor& logits);

}  // namespace maglev::tdmpc2
