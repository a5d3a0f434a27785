#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "kernels/adam/adam.h"

namespace maglev {

/// An optimiser's buffers, all on one device, f32 where nothing else is said.
struct AdamTensors {
  at::Tensor data, first, second;  ///< [P]
  at::Tensor steps, nonfinite;     ///< scalars
  at::Tensor groups;               ///< [groups, 2] i64: begin, count
  std::vector<AdamGroup> spans;    ///< the groups, on the host
  at::Tensor partial;  ///< [chunks, groups] f64, scratch: chunks as their device has them
  at::Tensor rate;     ///< [groups], multiplies the learning rate
  at::Tensor factor;   ///< [groups], scratch
  at::Tensor step;     ///< [4], an AdamStep
};

struct AdamNumbers {
  double beta1, beta2, eps, weight_decay, max_grad_norm;
  bool clip_together = false;  ///< one norm over all groups
};

/// The kernel's arguments over these buffers, without a gradient, learning rate and skip. They stay
/// valid as long as the tensors.
AdamArgs adam_args(const AdamTensors& tensors, const AdamNumbers& numbers);

/// The stages of kernels/adam/adam.h, in this order; on CPU the pool's threads share the chunks.
/// Each names what it reads in `args`, for those after it.
///   grad     [lanes, P] f32, rows may lie further apart than P; read until the step is done
///   unscale  scalar f32, what the lanes' sum is multiplied by; undefined: 1
///   skip, lr scalars f32
/// Afterwards tensors.step[0] is the norm before clipping.
void adam_reduce(AdamArgs& args, const at::Tensor& grad, const at::Tensor& unscale,
                 ThreadPool& pool);
void adam_clip(AdamArgs& args, const at::Tensor& skip);
void adam_step(AdamArgs& args, const at::Tensor& lr, ThreadPool& pool);

/// The same stages in plain ATen, the formulas as the papers have them. `sum` is grad[0].
/// Graph-safe.
void adam_reduce_reference(const at::Tensor& grad, const at::Tensor& unscale);
void adam_clip_reference(AdamTensors& tensors, const AdamNumbers& numbers, const at::Tensor& sum,
                         const at::Tensor& skip);
void adam_step_reference(AdamTensors& tensors, const AdamNumbers& numbers, const at::Tensor& sum,
                         const at::Tensor& lr);

/// Zeroed moments and counters for parameters `data` [P] and their groups. `rates`, one a group,
/// multiply the learning rate; none: 1.
AdamTensors make_adam_tensors(const at::Tensor& data, const std::vector<AdamGroup>& groups,
                              const std::vector<float>& rates = {});

}  // namespace maglev
