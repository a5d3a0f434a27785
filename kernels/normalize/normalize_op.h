#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// clamp((x - mean) / sqrt(var + 1e-8), -clip, clip) of x [.., D] f32; mean, var [D] f32, all on
/// one device. Without gradients.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& var,
                     double clip);

/// Running moments of columns, changed in place: mean, var [D] f32, count [] f64.
struct RunningMoments {
  at::Tensor mean, var, count;
};

/// Scratch of absorb_moments_ of D columns and of absorb_returns_ of N, on `device`; for any number
/// of rows or steps.
at::Tensor moments_scratch(int64_t D, at::Device device);
at::Tensor returns_scratch(int64_t N, at::Device device);

/// Merges rows [M, D] f32 into the moments, each with weight [M] f32 where one is given.
void absorb_moments_(RunningMoments& moments, const at::Tensor& rows, const at::Tensor& weight,
                     at::Tensor& scratch);

/// Runs discounted returns on over a rollout and merges them into the moments of one column.
///   running [N] f32, changed: running * gamma + reward, 0 behind done
///   reward [T, N] f32         done [T, N] u8         weight [T, N] f32
void absorb_returns_(RunningMoments& moments, at::Tensor& running, const at::Tensor& reward,
                     const at::Tensor& done, const at::Tensor& weight, double gamma,
                     at::Tensor& scratch);

}  // namespace maglev
