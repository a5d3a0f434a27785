#pragma once
// Log-probabilities of a panel, one thread a row: what drawing and the loss share on a device, so
// that they agree to the bit.

#include "base/simd/panel.h"

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

}  // namespace maglev
