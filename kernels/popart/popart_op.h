#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// What PopArt changes, all f32 on one device: mean, variance and deviation of returns, `scale`
/// (old std / new std, written), the head's weight [1, F] and bias [1], and the optimiser's moments
/// [F + 1] of both, weight first (undefined: none).
struct PopArtState {
  at::Tensor mean, var, std, count, scale, weight, bias, adam_first, adam_second;
};

/// Scratch of popart_ on `device`, for any number of returns.
at::Tensor popart_scratch(at::Device device);

/// Takes in returns [M] f32, each with weight [M] f32, and rescales head and optimiser so that
/// denormalised outputs stay; does nothing where all weights are 0. Step size of the moments: max(1
/// / updates, beta_min).
void popart_(PopArtState& state, const at::Tensor& returns, const at::Tensor& weight,
             double beta_min, at::Tensor& scratch);

}  // namespace maglev
