#pragma once
// A step of LaProp (Ziyin, Wang and Ueda, "LaProp: separating momentum and adaptivity in Adam",
// 2020) behind adaptive gradient clipping (Brock et al., "High-performance large-scale image
// recognition without normalization", 2021) over one flat buffer, without a value the host must
// read.
//   reduce  lanes are added in order; squares of gradients and parameters are summed
//   clip    what each tensor's gradient is multiplied by, and whether the step is taken
//   step    squares = beta2 squares + (1 - beta2) g^2
//           momentum = beta1 momentum + (1 - beta1) g / (sqrt(squares / unbiased2) + eps)
//           data -= lr momentum / unbiased1
// Threads: chunks are cut from sizes alone. First every chunk's reduce, then one clip, then every
// chunk's step; results do not depend on how many threads take them.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Elements a chunk has at most; it lies in one tensor.
constexpr int64_t kLaPropChunk = 16384, kLaPropDeviceChunk = 1024;

struct LaPropChunk {
  int64_t begin, count, tensor;
};

/// What clip hands on.
struct LaPropStep {
  float norm;       ///< of the whole gradient, before clipping
  float apply;      ///< 0: nothing changes
  float unbiased1;  ///< 1 - beta1^steps
  float unbiased2;  ///< 1 - beta2^steps
};

struct LaPropArgs {
  float* grad;    ///< [lanes][lane_stride]; lane 0 becomes the sum, then clipped
  int64_t lanes;  ///< at least 1, added in order
  int64_t lane_stride;
  const float* unscale;       ///< [1], what the sum is multiplied by; null: 1
  const LaPropChunk* chunks;  ///< [chunk_count], those of a tensor one behind another
  int64_t chunk_count, tensors;
  float *data, *momentum, *squares;
  const float *lr, *skip;    ///< [1]; skip not 0: leave the step out
  float *steps, *nonfinite;  ///< [1], steps taken; steps left out for their norm
  double beta1, beta2, eps;
  double clip,
      least;         ///< most a gradient may be of its tensor's norm, which counts `least` at least
  double* partial;   ///< [chunk_count][2], scratch
  float* factor;     ///< [tensors], scratch
  LaPropStep* step;  ///< [1], scratch and result
};

/// What a tensor's gradient is multiplied by, whose squares and whose parameters' sum up to these.
MAGLEV_HD float laprop_factor(const LaPropArgs& a, double grad, double data) {
  if (a.clip == 0) return 1.f;
  const double size = sqrt(data), most = a.clip * (size > a.least ? size : a.least);
  const double over = sqrt(grad) / most;
  return over > 1 ? float(1 / over) : 1.f;
}

/// Counters and scalars, once the squares of all gradients sum to `whole`.
MAGLEV_HD void laprop_begin_step(const LaPropArgs& a, double whole) {
  const bool finite = whole - whole == 0, taken = finite && *a.skip == 0.f;
  if (!finite) *a.nonfinite += 1.f;
  if (taken) *a.steps += 1.f;
  const double steps = double(*a.steps);
  a.step->norm = float(sqrt(whole)), a.step->apply = taken ? 1.f : 0.f;
  a.step->unbiased1 = float(1 - pow(a.beta1, steps));
  a.step->unbiased2 = float(1 - pow(a.beta2, steps));
}

/// Here and in laprop_step_cpu numbers too small to be normal are 0 (base/simd/subnormals.h), on a
/// device they are what they are. Of a gradient that has been 1e-20 to 3e-18 for thousands of
/// updates the squares are 0 then, and it moves a parameter further than lr.
void laprop_reduce_cpu(const LaPropArgs& args, int64_t chunk);
void laprop_clip_cpu(const LaPropArgs& args);
void laprop_step_cpu(const LaPropArgs& args, int64_t chunk);

/// The stages on `stream` (a cudaStream_t), every pointer in device memory. Return a cudaError_t.
/// Only in builds with device code.
int laprop_reduce_cuda(const LaPropArgs& args, void* stream);
int laprop_clip_cuda(const LaPropArgs& args, void* stream);
int laprop_step_cuda(const LaPropArgs& args, void* stream);

}  // namespace maglev
