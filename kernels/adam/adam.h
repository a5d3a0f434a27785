#pragma once
// A gradient's way into the parameters over one flat buffer, without a value the host must read:
// learning rate, the decision to skip and the counters are read and written where the buffer is.
//   reduce  lanes are added in order, without the factor of a loss scale; squares are summed
//   clip    norms, what the gradient is multiplied by, and whether the step is taken
//   step    Adam (Kingma and Ba, 2015) or AdamW (Loshchilov and Hutter, 2019)
// A sum that something was added to, by other processes say, is reduced again as one lane.
// Threads: chunks are cut from sizes alone. First every chunk's adam_reduce, then one adam_clip,
// one adam_begun_step, then every chunk's adam_step; chunks of one stage may run on any threads,
// and results do not depend on how many.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Elements whose squares are summed in f32 before they are added in f64.
constexpr int64_t kAdamBlock = 1024;

/// Elements with a learning rate of their own, and unless clip_together a norm of their own.
struct AdamGroup {
  int64_t begin, count;
};

/// What the stages hand on.
struct AdamStep {
  float norm;        ///< of the whole gradient, before clipping; by adam_clip
  float apply;       ///< 0: nothing changes; by adam_clip
  float step_size;   ///< lr / (1 - beta1^steps); by adam_begun_step
  float root_bias2;  ///< sqrt(1 - beta2^steps); by adam_begun_step
};

struct AdamArgs {
  float* grad;    ///< [lanes][lane_stride], P used of each; lane 0 becomes the sum, then clipped
  int64_t lanes;  ///< at least 1, added in order
  int64_t lane_stride;
  const float* unscale;     ///< [1], what the sum is multiplied by; null: 1. Read by reduce
  int64_t P;                ///< elements
  const AdamGroup* groups;  ///< [group_count], in order, covering [0, P)
  int64_t group_count;
  const float* rate;   ///< [group_count], what each group's learning rate is multiplied by
  bool clip_together;  ///< one norm and one factor for all groups
  float* data;         ///< [P], parameters
  float* first;        ///< [P], first moments
  float* second;       ///< [P], second moments
  const float* lr;     ///< [1], read by step
  const float* skip;   ///< [1], not 0: leave the step out. Read by clip
  float* steps;        ///< [1], steps taken
  float* nonfinite;    ///< [1], steps left out because the norm was not finite
  double beta1, beta2, eps;
  double weight_decay;   ///< decoupled; 0: none
  double max_grad_norm;  ///< of each group or of all, L2; 0: no clipping
  double* partial;       ///< [adam_chunks(P), on a device adam_device_chunks][group_count], scratch
  float* factor;         ///< [group_count], scratch: what each group's gradient is multiplied by
  AdamStep* step;        ///< [1], scratch and result
};

/// Elements of a chunk, in whole blocks: a 64th of P where that is 2 to 16 of them, so that threads
/// share the step of a small network too.
MAGLEV_HD int64_t adam_chunk(int64_t P) {
  const int64_t blocks = (P / 64 + kAdamBlock - 1) / kAdamBlock;
  return kAdamBlock * (blocks < 2 ? 2 : blocks > 16 ? 16 : blocks);
}
MAGLEV_HD int64_t adam_chunks(int64_t P) { return (P + adam_chunk(P) - 1) / adam_chunk(P); }
/// Elements of a chunk on a device.
constexpr int64_t kAdamDeviceChunk = 128;
MAGLEV_HD int64_t adam_device_chunks(int64_t P) {
  return (P + kAdamDeviceChunk - 1) / kAdamDeviceChunk;
}

/// Sums the lanes of a chunk into lane 0 and writes its sums of squares, one a group. In this stage
/// and in adam_step_cpu numbers too small to be normal are 0 (base/simd/subnormals.h), on a device
/// they are what they are: over eps they move no parameter.
void adam_reduce_cpu(const AdamArgs& args, int64_t chunk);
/// Multiplies a chunk's gradient by its groups' factors and steps. Where the step is left out,
/// nothing changes, the gradient included.
void adam_step_cpu(const AdamArgs& args, int64_t chunk);

/// What a gradient whose squares sum to `squares` is multiplied by.
MAGLEV_HD float adam_clip_factor(const AdamArgs& a, double squares) {
  const double clip = a.max_grad_norm / (sqrt(squares) + 1e-6);
  return a.max_grad_norm > 0 && clip < 1 ? float(clip) : 1.f;
}

/// The scalars of one group's elements.
struct AdamRate {
  float step_size;  ///< lr / (1 - beta1^steps)
  float keep;       ///< 1 - lr * weight_decay
};
MAGLEV_HD AdamRate adam_rate(const AdamArgs& a, const AdamStep& step, int64_t g) {
  return {.step_size = step.step_size * a.rate[g],
          .keep = float(1 - double(*a.lr) * double(a.rate[g]) * a.weight_decay)};
}

/// What is left once each group has its factor and the squares of all sum to `whole`: one factor
/// for all where they are clipped together, and counters. A step is left out where `skip` is not 0
/// or the norm is not finite.
MAGLEV_HD void adam_finish_clip(const AdamArgs& a, double whole) {
  if (a.clip_together)
    for (int64_t g = 0; g < a.group_count; ++g) a.factor[g] = adam_clip_factor(a, whole);
  const bool finite = whole - whole == 0, skipped = *a.skip != 0.f;
  if (!finite && !skipped) *a.nonfinite += 1.f;
  if (finite && !skipped) *a.steps += 1.f;
  a.step->norm = float(sqrt(whole));
  a.step->apply = finite && !skipped ? 1.f : 0.f;
}

/// Norms, clip factors min(1, max_grad_norm / (norm + 1e-6)) and counters.
inline void adam_clip_cpu(const AdamArgs& a) {
  double whole = 0;
  for (int64_t g = 0; g < a.group_count; ++g) {
    double squares = 0;
    for (int64_t c = 0; c < adam_chunks(a.P); ++c) squares += a.partial[c * a.group_count + g];
    whole += squares;
    a.factor[g] = adam_clip_factor(a, squares);
  }
  adam_finish_clip(a, whole);
}

/// The step with its scalars, from the learning rate and the steps taken.
MAGLEV_HD AdamStep adam_begun_step(const AdamArgs& a) {
  const double lr = double(*a.lr), steps = double(*a.steps);
  AdamStep step = *a.step;
  step.step_size = float(lr / (1 - pow(a.beta1, steps)));
  step.root_bias2 = float(sqrt(1 - pow(a.beta2, steps)));
  return step;
}

/// The stages on `stream` (a cudaStream_t), every pointer in device memory; step begins itself, and
/// writes no AdamStep. Of 32 lanes and more, every 32nd are added first, then their sums in order.
/// Return a cudaError_t. Only in builds with device code.
int adam_reduce_cuda(const AdamArgs& args, void* stream);
int adam_clip_cuda(const AdamArgs& args, void* stream);
int adam_step_cuda(const AdamArgs& args, void* stream);

}  // namespace maglev
