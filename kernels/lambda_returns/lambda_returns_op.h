#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// Steps 0 to T of trajectories, time first; each [T + 1, N] f32, contiguous, on one device.
struct ReturnInputs {
  const at::Tensor& reward;      ///< got on the way to the step
  const at::Tensor& value;       ///< what is expected from there
  const at::Tensor& terminated;  ///< the share of it that has no future
  at::Tensor ended;              ///< 1: another trajectory begins behind it; undefined: never
  double discount, lambda;
};
/// Writes returns [T, N] of steps 0 to T - 1. Graph-safe.
void lambda_returns_(const ReturnInputs& in, at::Tensor& returns);

}  // namespace maglev
