#pragma once
// What rewards are worth: bins that a scalar is classified into, returns, and their range.

#include <ATen/core/Tensor.h>

namespace maglev::dreamer {

/// kBins values, even in symlog space from -20 to 20 and symmetric, of `options`.
at::Tensor symexp_bins(const at::TensorOptions& options);
/// The mean of bins under softmax(logits): [..., bins] -> [...]. Exactly 0 where logits are alike
/// on both sides of the middle.
at::Tensor binned_mean(const at::Tensor& logits, const at::Tensor& bins);
/// The two-hot code [..., bins] of numbers [...]: the two bins beside a number weigh by how near
/// they are, so that it is their mean; what is beyond the last bin is that bin.
at::Tensor two_hot_code(const at::Tensor& x, const at::Tensor& bins);
/// Of logits [..., bins] to weights [..., bins], which get no gradient: [...].
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& code);

/// Steps 0 to T of trajectories, time first; each [T + 1, N].
struct Trajectory {
  at::Tensor reward;      ///< got on the way to the step
  at::Tensor value;       ///< what is expected from there
  at::Tensor terminated;  ///< the share of it that has no future
  at::Tensor ended;       ///< 1: what follows is not of this trajectory any more
};
/// Returns [T, N] from steps 0 to T - 1 (Sutton and Barto, "Reinforcement learning", 2018, 12.1):
///   R_t = reward' + live ((1 - more) value' + more R'), live = discount (1 - terminated'),
///   more = lambda (1 - ended'), and R_T = value_T, where ' is of step t + 1.
at::Tensor lambda_returns(const Trajectory& steps, double discount, double lambda);

/// `range` [2] moves by the share `rate` to the 5th and 95th percentile of x, in place; returns
/// their distance, at least 1. Numbers whose `weight`, of the same size, is 0 are left out; none is
/// where it is undefined.
at::Tensor moved_range(at::Tensor& range, const at::Tensor& x, double rate,
                       const at::Tensor& weight = {});

/// Divergence of categoricals by their log-probabilities [..., S, C], summed over S: [...].
at::Tensor divergence(const at::Tensor& from, const at::Tensor& to);

}  // namespace maglev::dreamer
