#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/policy/policy.cuh"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev {
namespace {

constexpr int kThreads = int(kPpoDeviceBlock);

// sum over a block's rows, in a tree whose shape does not depend on them; thread 0 writes it
__device__ void sum_of_block(double x, double* out) {
  __shared__ double shared[kThreads];
  shared[threadIdx.x] = x;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *out = shared[0];
  __syncthreads();
}

struct ValueError {
  float error, slope;
};

__device__ ValueError value_error(const PpoLossSettings& s, float value, float target, float old) {
  const float far = value - target;
  const ValueError free{far * far, 2.f * far};
  if (!(s.value_clip > 0)) return free;
  const float move = value - old;
  const float near = old + fminf(fmaxf(move, -s.value_clip), s.value_clip) - target;
  const ValueError clipped{near * near, fabsf(move) <= s.value_clip ? 2.f * near : 0.f};
  if (!s.value_clip_max) return clipped;
  if (clipped.error > free.error) return clipped;
  if (clipped.error < free.error) return free;
  return {free.error, 0.5f * (clipped.slope + free.slope)};
}

__global__ void loss_rows(PpoLossArgs args, DevicePolicy device, double* partial) {
  const PolicyPanel& p = args.policy;
  const PpoLossSettings& settings = args.settings;
  const PpoLossScalars s = *args.scalars;
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t at = row < p.rows ? args.index[row] : 0;
  const float valid = row < p.rows ? args.valid[at] : 0.f, weight = valid * s.inverse_count;
  const bool counts = valid != 0.f;
  double* sums = partial + blockIdx.x * (kPpoTotal + p.dims);
  float d_log_prob = 0.f, d_entropy = 0.f, d_value = 0.f, figure[kPpoTotal] = {};
  if (counts) {
    const RowLogProb now = action_log_prob(device, row, at, args.action_i32, args.action_f32);
    const float log_ratio = now.log_prob - args.old_log_prob[at], ratio = expf(log_ratio);
    const float advantage = (args.advantage[at] - s.advantage_mean) * valid * s.advantage_scale;
    const float low = 1.f - s.clip, high = 1.f + s.clip;
    const bool inside = ratio >= low && ratio <= high;
    const float free = ratio * advantage, clipped = fminf(fmaxf(ratio, low), high) * advantage;
    // where the clipped side is the smaller one, or the ratio is clipped, it passes nothing on
    const float share = free > clipped ? 0.f : free == clipped && !inside ? 0.5f : 1.f;
    d_log_prob = -(weight * advantage * share) * ratio;
    d_entropy = -(weight * s.entropy_coef);
    const ValueError value = value_error(settings, args.value[row], args.target[at],
                                         args.old_value ? args.old_value[at] : 0.f);
    d_value = settings.value_coef * weight * value.slope;
    const float deviation = fabsf(ratio - 1.f);
    figure[kPpoPolicy] = -fminf(clipped, free) * weight;
    figure[kPpoValue] = value.error * weight;
    figure[kPpoEntropy] = now.entropy * weight;
    figure[kPpoApproxKl] = (ratio - 1.f - log_ratio) * weight;
    figure[kPpoClipFraction] = deviation > s.clip ? weight : 0.f;
    figure[kPpoRatioDeviation] = deviation * weight;
  }
  if (row < p.stride) args.d_value[row] = d_value;
  for (int f = 0; f < kPpoTotal; ++f) sum_of_block(double(figure[f]), sums + f);

  for (int64_t i = 0; p.head_count == 0 && i < p.dims; ++i) {
    const float z = counts ? gaussian_distance(p, row, i, args.action_f32[at * p.dims + i]) : 0.f;
    if (row < p.stride)
      args.d_logits[i * p.stride + row] = counts ? d_log_prob * z * expf(-p.log_std[i]) : 0.f;
    sum_of_block(counts ? double(d_log_prob * (z * z - 1.f) + d_entropy) : 0.,
                 sums + kPpoTotal + i);
  }
  if (row >= p.stride) return;
  for (int64_t h = 0, begin = 0; h < p.head_count; begin += device.heads[h++]) {
    HeadSoftmax head{};
    if (counts) head = head_softmax(p, row, at, begin, device.heads[h]);
    for (int64_t k = 0; k < device.heads[h]; ++k) {
      float g = 0.f;
      if (counts && !(p.mask && p.mask[at * p.mask_width + begin + k] == 0)) {
        const float log_prob =
            (masked_logit(p, row, at, begin + k) - head.largest) - head.log_total;
        const float prob = expf(log_prob);
        const float hit = args.action_i32[at * p.dims + h] == k ? 1.f : 0.f;
        g = d_log_prob * (hit - prob) - d_entropy * (prob * (log_prob + head.entropy));
      }
      args.d_logits[(begin + k) * p.stride + row] = g;
    }
  }
}

// one block: blocks' sums, a warp a figure or dimension
__global__ void add_blocks(PpoLossArgs args, const double* partial, int64_t blocks) {
  const PolicyPanel& p = args.policy;
  // dimensions have sums where actions are continuous
  const int64_t width = kPpoTotal + p.dims, used = p.head_count > 0 ? int64_t(kPpoTotal) : width;
  __shared__ double figure[kPpoTotal];
  const int64_t lane = threadIdx.x % 32;
  for (int64_t c = threadIdx.x / 32; c < used; c += kThreads / 32) {
    double sum = 0;
    for (int64_t b = lane; b < blocks; b += 32) sum += partial[b * width + c];
    sum = warp_sum(sum);
    if (lane != 0) continue;
    if (c < kPpoTotal) figure[c] = sum, args.figures[c] += sum;
    else args.d_log_std[c - kPpoTotal] += float(sum);
  }
  __syncthreads();
  if (threadIdx.x == 0)
    args.figures[kPpoTotal] += figure[kPpoPolicy] +
                               double(args.settings.value_coef) * figure[kPpoValue] -
                               double(args.scalars->entropy_coef) * figure[kPpoEntropy];
}

}  // namespace

int ppo_loss_cuda(const PpoLossArgs& args, double* partial, void* stream) {
  if (args.policy.head_count > kMostDeviceHeads) return int(cudaErrorInvalidValue);
  const int64_t rows = args.policy.rows, blocks = blocks_of(rows, kThreads);
  if (const int error = launch_kernel(loss_rows, {.grid = {blocks}, .block = {kThreads}}, stream,
                                      args, device_policy(args.policy), partial))
    return error;
  return launch_kernel(add_blocks, {.block = {kThreads}}, stream, args, partial, blocks);
}

}  // namespace maglev
