#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/adam/adam.h"

namespace maglev {

/// An optimiser's buffers, all on one device, f32 where nothing else is said.
struct AdamTensors {
  at::Tensor data, first, second;  ///< [P]
  at::Tensor steps, nonfinite;     ///< scalars
  at::Tensor groups;               ///< [groups, 2] i64: begin, count
  std::vector<AdamGroup> spans;    ///< the groups, on the host
  at::Tensor partial;              ///< [chunks, groups] f64, scratch
  at::Tensor rate;                 ///< [groups], multiplies the learning rate
  at::Tensor factor;               ///< [groups], scratch
  at::Tensor step;                 ///< [4], an AdamStep
};

struct AdamNumbers {
  double beta1, beta2, eps, weight_decay, max_grad_norm;
  bool clip_together = false;  ///< one norm over all groups
};

/// The kernel's arguments for gradient lanes `grad` [lanes, P], whose rows may lie further apart
/// than P; `lr` and `skip` are scalars. They stay valid as long as the tensors.
AdamArgs adam_args(const AdamTensors& tensors, const AdamNumbers& numbers, const at::Tensor& grad,
                   const at::Tensor& lr, const at::Tensor& skip);

/// One step. grad[0] becomes the clipped sum of the lanes. Afterwards tensors.step[0] is the norm
/// before clipping.
void adam_(AdamTensors& tensors, const AdamNumbers& numbers, at::Tensor& grad, const at::Tensor& lr,
           const at::Tensor& skip);

/// The same in plain ATen, the formula as the papers have it. Graph-safe.
void adam_reference_(AdamTensors& tensors, const AdamNumbers& numbers, at::Tensor& grad,
                     const at::Tensor& lr, const at::Tensor& skip);

/// Zeroed moments and counters for parameters `data` [P] and their groups. `rates`, one a group,
/// multiply the learning rate; none: 1.
AdamTensors make_adam_tensors(const at::Tensor& data, const std::vector<AdamGroup>& groups,
                              const std::vector<float>& rates = {});

}  // namespace maglev
