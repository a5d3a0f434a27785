#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace maglev {

/// What a policy's head of some rows says of actions; f32 on one device, rows one behind another.
struct ActionRows {
  const at::Tensor &head, &bias;  ///< [rows, width] products without their bias [width]
  /// Categories of each choice [choices] i64 on the device, whose head is as wide as an action; or
  /// undefined: continuous actions, whose head is [means, deviations].
  const at::Tensor& choices;
};

/// Draws by numbers [rows, A] (normal) or [rows, choices] (uniform) into action [rows, A], and what
/// of it is within [-1, 1] into bounded. Graph-safe.
void draw_actions(const ActionRows& of, const at::Tensor& number, at::Tensor& action,
                  at::Tensor& bounded);

/// Of actions that were taken: a row counts by weight, its advantage is (returns - value) / range.
struct TakenActions {
  const at::Tensor &action, &returns, &value, &weight;  ///< [rows, A], [rows] each
  const at::Tensor& range;                              ///< a scalar
  double factor, entropy_coef;
};
/// Writes losses [rows], -factor * weight * (log-likelihood * advantage + entropy_coef * entropy),
/// entropies [rows], and the gradient of the losses' sum, which may be where the head is.
/// Graph-safe.
void action_loss(const ActionRows& of, const TakenActions& taken, at::Tensor& loss,
                 at::Tensor& entropy, at::Tensor& d_head);

}  // namespace maglev
