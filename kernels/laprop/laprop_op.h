#pragma once
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "kernels/laprop/laprop.h"

namespace maglev {

struct LaPropNumbers {
  double beta1, beta2, eps, clip, least;
};

/// An optimiser's buffers, all on one device, f32 where nothing else is said.
struct LaPropTensors {
  at::Tensor data, momentum, squares;              ///< [P]
  at::Tensor steps, nonfinite;                     ///< scalars
  std::vector<std::pair<int64_t, int64_t>> spans;  ///< of each tensor: begin, count
  at::Tensor chunks;                               ///< [chunks, 3] i64, LaPropChunks
  at::Tensor partial, factor, step;  ///< scratch: [chunks, 2] f64, [tensors], [4], a LaPropStep
};
/// Zeroed moments and counters for parameters `data` [P] that are tensors of these spans.
LaPropTensors make_laprop_tensors(const at::Tensor& data,
                                  const std::vector<std::pair<int64_t, int64_t>>& spans);

/// The kernel's arguments over these buffers, without a gradient, learning rate and skip. They stay
/// valid as long as the tensors.
LaPropArgs laprop_args(const LaPropTensors& tensors, const LaPropNumbers& numbers);

/// The stages of laprop.h, in this order; on CPU the pool's threads share the chunks. Each names
/// what it reads in `args`, for those after it: lanes [lanes, P] f32, read until the step is done;
/// scalars unscale (undefined: 1), skip and lr. Afterwards tensors.step[0] is the norm before
/// clipping.
void laprop_reduce(LaPropArgs& args, const at::Tensor& lanes, const at::Tensor& unscale,
                   ThreadPool& pool);
void laprop_clip(LaPropArgs& args, const at::Tensor& skip);
void laprop_step(LaPropArgs& args, const at::Tensor& lr, ThreadPool& pool);

/// Clip and step in plain ATen, of the lanes' sum [P], which clip leaves clipped. Graph-safe.
void laprop_clip_reference(LaPropTensors& tensors, const LaPropNumbers& numbers,
                           const at::Tensor& sum, const at::Tensor& skip);
void laprop_step_reference(LaPropTensors& tensors, const LaPropNumbers& numbers,
                           const at::Tensor& sum, const at::Tensor& lr);

}  // namespace maglev
