#pragma once
// Draws and log-probabilities of a panel, one thread a row: what acting and the loss share on a
// device, so that they agree to the bit where both are compiled with the same flags: within
// actor_critic, and within policy and ppo_loss. Between the two a multiply and an add may be one
// rounding or two.

#include "kernels/philox/philox.h"
#include "kernels/policy/policy.h"

namespace maglev {

/// A policy whose heads travel with a launch. `policy.heads` is not read on the device.
struct DevicePolicy {
  PolicyPanel policy;
  int64_t heads[kMostDeviceHeads];
};

inline DevicePolicy device_policy(const PolicyPanel& policy) {
  DevicePolicy out{policy, {}};
  for (int64_t h = 0; h < policy.head_count; ++h) out.heads[h] = policy.heads[h];
  return out;
}

constexpr float kHalfLog2PiDevice = 0.918938533f;

/// Excluded categories get a finite floor: their probability is exactly 0 in f32.
constexpr float kExcludedDevice = -1e8f;

/// `at` is the row of the mask.
__device__ inline float masked_logit(const PolicyPanel& p, int64_t row, int64_t at,
                                     int64_t category) {
  if (p.mask && p.mask[at * p.mask_width + category] == 0) return kExcludedDevice;
  return p.logits[category * p.stride + row];
}

struct HeadSoftmax {
  float largest, log_total, entropy;
};

__device__ inline HeadSoftmax head_softmax(const PolicyPanel& p, int64_t row, int64_t at,
                                           int64_t begin, int64_t K) {
  float largest = masked_logit(p, row, at, begin);
  for (int64_t k = 1; k < K; ++k) largest = fmaxf(largest, masked_logit(p, row, at, begin + k));
  float total = 0.f, weighted = 0.f;
  for (int64_t k = 0; k < K; ++k) {
    const float x = masked_logit(p, row, at, begin + k) - largest, e = expf(x);
    total += e;
    weighted += e * x;
  }
  const float log_total = logf(total);
  return {largest, log_total, log_total - weighted / total};
}

/// Distance of `action` from the mean in deviations.
__device__ inline float gaussian_distance(const PolicyPanel& p, int64_t row, int64_t i,
                                          float action) {
  return (action - p.logits[i * p.stride + row]) * expf(-p.log_std[i]);
}

__device__ inline float gaussian_log_prob(const PolicyPanel& p, int64_t i, float z) {
  return -0.5f * z * z - (p.log_std[i] + kHalfLog2PiDevice);
}

struct RowLogProb {
  float log_prob, entropy;
};

/// Of the actions in row `at` of [*, dims].
__device__ inline RowLogProb action_log_prob(const DevicePolicy& device, int64_t row, int64_t at,
                                             const int32_t* category, const float* number) {
  const PolicyPanel& p = device.policy;
  RowLogProb out{0.f, 0.f};
  for (int64_t i = 0; p.head_count == 0 && i < p.dims; ++i) {
    const float z = gaussian_distance(p, row, i, number[at * p.dims + i]);
    out.log_prob += gaussian_log_prob(p, i, z);
    out.entropy += p.log_std[i] + (kHalfLog2PiDevice + 0.5f);
  }
  for (int64_t h = 0, begin = 0; h < p.head_count; begin += device.heads[h++]) {
    const HeadSoftmax s = head_softmax(p, row, at, begin, device.heads[h]);
    const float chosen = masked_logit(p, row, at, begin + category[at * p.dims + h]);
    out.log_prob += (chosen - s.largest) - s.log_total;
    out.entropy += s.entropy;
  }
  return out;
}

/// Draws for column `row` of the panel, which is row `at` of everything else.
__device__ inline float sample_heads(const SampleArgs& args, const DevicePolicy& device,
                                     const PhiloxFill& fill, int64_t row, int64_t at) {
  const PolicyPanel& p = device.policy;
  float log_prob = 0.f;
  PhiloxBlock block{};
  for (int64_t h = 0, begin = 0; h < p.head_count; begin += device.heads[h++]) {
    float best = 0.f;
    int64_t chosen = 0;
    for (int64_t k = 0; k < device.heads[h]; ++k) {
      const int64_t column = begin + k;
      float score = masked_logit(p, row, at, column);
      if (!args.mean) {
        if (column % 4 == 0) block = philox_row_block(fill, at, column / 4);
        score -= args.temperature * logf(-logf(open_uniform(block.word[column % 4])));
      }
      if (k == 0 || score > best) best = score, chosen = k;
    }
    args.action_i32[at * p.dims + h] = int32_t(chosen);
    const HeadSoftmax s = head_softmax(p, row, at, begin, device.heads[h]);
    log_prob += (masked_logit(p, row, at, begin + chosen) - s.largest) - s.log_total;
  }
  return log_prob;
}

__device__ inline float sample_gaussian(const SampleArgs& args, const DevicePolicy& device,
                                        const PhiloxFill& fill, int64_t row, int64_t at) {
  const PolicyPanel& p = device.policy;
  float log_prob = 0.f, radius = 0.f, angle = 0.f;
  for (int64_t i = 0; i < p.dims; ++i) {
    float action = p.logits[i * p.stride + row];
    if (!args.mean) {
      if (i % 2 == 0) {
        const PhiloxBlock block = philox_row_block(fill, at, i / 2);
        radius = sqrtf(-2.f * logf(open_uniform(block.word[0])));
        angle = 6.28318530717958648f * open_uniform(block.word[1]);
      }
      action += args.temperature * expf(p.log_std[i]) *
                (radius * (i % 2 == 0 ? cosf(angle) : sinf(angle)));
    }
    args.action_f32[at * p.dims + i] = action;
    log_prob += gaussian_log_prob(p, i, gaussian_distance(p, row, i, action));
  }
  return log_prob;
}

/// An action and its log-probability: column `row` of the panel `device` has is row `at` of what
/// `args` writes, of its mask and of its random streams.
__device__ inline void sample_row(const SampleArgs& args, const DevicePolicy& device, int64_t row,
                                  int64_t at) {
  const PhiloxFill fill{args.seed, args.purpose, args.first_row, args.step, args.policy.rows,
                        0,         args.base,    args.index};
  const float log_prob = device.policy.head_count > 0
                             ? sample_heads(args, device, fill, row, at)
                             : sample_gaussian(args, device, fill, row, at);
  if (args.log_prob) args.log_prob[at] = log_prob;
}

}  // namespace maglev
