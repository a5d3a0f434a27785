#pragma once
// The policy prior: a Gaussian squashed by tanh, its scaled entropy, and the running scale of its
// loss.

#include <ATen/core/Tensor.h>

#include "kernels/squashed_gaussian/squashed_gaussian.h"

namespace maglev::tdmpc2 {

/// Bounds of the logarithm of the Gaussian's deviation.
constexpr double kLogStdLow = -10, kLogStdHigh = 2;

/// What is squashed: of the policy's head [..., 2A], 0 where `mask` (below) has none.
struct PolicyGaussian {
  at::Tensor mean, log_std;  ///< [..., A]
};
PolicyGaussian policy_gaussian(const at::Tensor& head, const at::Tensor& mask);

struct PolicyDraw {
  at::Tensor action;   ///< [..., A] in (-1, 1)
  at::Tensor mean;     ///< [..., A], tanh of the Gaussian's mean
  at::Tensor entropy;  ///< [...], minus the action's log-probability
  /// [...], A times the entropy of EntropyOf: minus the log-probability of the Gaussian, or of the
  /// action.
  at::Tensor scaled_entropy;
};

/// Of the policy's head [..., 2A] and standard normals [..., A]. `mask` [..., A] f32, or undefined:
/// 1 where a task has the dimension; the others are 0.
PolicyDraw draw_policy(const at::Tensor& head, const at::Tensor& noise, const at::Tensor& mask,
                       EntropyOf entropy_of = EntropyOf::gaussian);

/// The range between the 5th and the 95th percentile of x [n], linearly interpolated. Scalar.
at::Tensor percentile_range(const at::Tensor& x);
/// Moves `scale`, a scalar, by the share tau towards max(1, percentile_range(x)), in place; not at
/// all where that is not finite.
void update_running_scale(at::Tensor& scale, const at::Tensor& x, double tau);

}  // namespace maglev::tdmpc2
