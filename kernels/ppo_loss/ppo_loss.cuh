#pragma once
// PPO's loss of one row and its gradient: one thread each, whichever kernel asks.

#include "kernels/policy/policy.cuh"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev {

struct ValueError {
  float error, slope;
};

__device__ inline ValueError value_error(const PpoLossSettings& s, float clip, float value,
                                         float target, float old) {
  const float far = value - target;
  const ValueError free{far * far, 2.f * far};
  if (!s.clips_value) return free;
  const float move = value - old;
  const float near = old + fminf(fmaxf(move, -clip), clip) - target;
  const ValueError clipped{near * near, fabsf(move) <= clip ? 2.f * near : 0.f};
  if (!s.value_clip_max) return clipped;
  if (clipped.error > free.error) return clipped;
  if (clipped.error < free.error) return free;
  return {free.error, 0.5f * (clipped.slope + free.slope)};
}

/// What a row adds to the figures, each times the row's weight, and derivatives of the loss.
struct RowLoss {
  float d_log_prob, d_entropy, d_value;
  float figure[kPpoTotal];
};

/// Of column `row` of the panel, which is row `at` of the rollout and counts.
__device__ inline RowLoss row_loss(const PpoLossArgs& args, const DevicePolicy& device,
                                   const PpoLossScalars& s, int64_t row, int64_t at) {
  const float valid = args.valid[at], weight = valid * s.inverse_count;
  const RowLogProb now = action_log_prob(device, row, at, args.action_i32, args.action_f32);
  const float log_ratio = now.log_prob - args.old_log_prob[at], ratio = expf(log_ratio);
  const float advantage = (args.advantage[at] - s.advantage_mean) * valid * s.advantage_scale;
  const float low = 1.f - s.clip, high = 1.f + s.clip;
  const bool inside = ratio >= low && ratio <= high;
  const float free = ratio * advantage, clipped = fminf(fmaxf(ratio, low), high) * advantage;
  // where the clipped side is the smaller one, or the ratio is clipped, it passes nothing on
  const float share = free > clipped ? 0.f : free == clipped && !inside ? 0.5f : 1.f;
  const ValueError value = value_error(args.settings, s.value_clip, args.value[row],
                                       args.target[at], args.old_value ? args.old_value[at] : 0.f);
  const float deviation = fabsf(ratio - 1.f);
  RowLoss out;
  out.d_log_prob = -(weight * advantage * share) * ratio;
  out.d_entropy = -(weight * s.entropy_coef);
  out.d_value = args.settings.value_coef * weight * value.slope;
  out.figure[kPpoPolicy] = -fminf(clipped, free) * weight;
  out.figure[kPpoValue] = value.error * weight;
  out.figure[kPpoEntropy] = now.entropy * weight;
  out.figure[kPpoApproxKl] = (ratio - 1.f - log_ratio) * weight;
  out.figure[kPpoClipFraction] = deviation > s.clip ? weight : 0.f;
  out.figure[kPpoRatioDeviation] = deviation * weight;
  return out;
}

/// Writes the row's d_logits in dimension i of a Gaussian; returns its share of d_log_std.
__device__ inline double gaussian_gradient(const PpoLossArgs& args, const DevicePolicy& device,
                                           int64_t row, int64_t at, bool counts,
                                           const RowLoss& loss, int64_t i) {
  const PolicyPanel& p = device.policy;
  const float z = counts ? gaussian_distance(p, row, i, args.action_f32[at * p.dims + i]) : 0.f;
  args.d_logits[i * p.stride + row] = counts ? loss.d_log_prob * z * expf(-p.log_std[i]) : 0.f;
  return counts ? double(loss.d_log_prob * (z * z - 1.f) + loss.d_entropy) : 0.;
}

/// Writes the row's d_logits of categorical heads.
__device__ inline void heads_gradient(const PpoLossArgs& args, const DevicePolicy& device,
                                      int64_t row, int64_t at, bool counts, const RowLoss& loss) {
  const PolicyPanel& p = device.policy;
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
        g = loss.d_log_prob * (hit - prob) - loss.d_entropy * (prob * (log_prob + head.entropy));
      }
      args.d_logits[(begin + k) * p.stride + row] = g;
    }
  }
}

}  // namespace maglev
