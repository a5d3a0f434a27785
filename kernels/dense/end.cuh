#pragma once
// What the end of a layer and the way back through it have in common: a warp takes a row, a lane
// every 32nd group of kSimNormGroup features, and up to kGroups groups a lane stay in registers.

#include "base/device/group.cuh"
#include "base/device/warp.cuh"
#include "kernels/dense/dense.h"

namespace maglev {

constexpr int kEndGroup = kGroup;
static_assert(kEndGroup == kSimNormGroup);

/// Features that a row of kGroups groups a lane has at most.
constexpr int64_t end_features(int groups) { return int64_t(groups) * kWarpThreads * kEndGroup; }

/// First feature of a lane's g-th group.
__device__ inline int64_t end_feature(int g) {
  return (int64_t(g) * kWarpThreads + threadIdx.x % kWarpThreads) * kEndGroup;
}

/// e^x and x / y. Fast: to a few units in the last place, for what is rounded to bf16 behind it.
template <bool kFast>
__device__ inline float exponential(float x) {
  if constexpr (kFast) return __expf(x);
  else return expf(x);
}
template <bool kFast>
__device__ inline float quotient(float x, float y) {
  if constexpr (kFast) return __fdividef(x, y);
  else return x / y;
}

/// A softmax of one group.
template <bool kFast = false>
__device__ inline void softmax_group(float (&x)[kEndGroup]) {
  float largest = x[0], total = 0.f;
  for (int k = 1; k < kEndGroup; ++k) largest = fmaxf(largest, x[k]);
  for (int k = 0; k < kEndGroup; ++k) total += x[k] = exponential<kFast>(x[k] - largest);
  for (int k = 0; k < kEndGroup; ++k) x[k] = quotient<kFast>(x[k], total);
}

/// A row of one environment's and network's.
struct EndRow {
  int64_t env, net, row;

  __device__ int64_t shared(const DenseSteps& s) const { return env * s.env + net * s.net; }
  __device__ int64_t place(const DenseSteps& s) const { return shared(s) + row * s.row; }
  /// Where rows of all networks lie one behind the other.
  __device__ int64_t dense(const DenseEndRows& a) const {
    return ((env * a.nets + net) * a.rows + row) * a.features;
  }
};

/// A lane's part of LayerNorm(x + start), before gain and shift; returns 1 / its deviation.
template <class T, int kGroups>
__device__ float normalised_row(const DenseEndRows& a, const EndRow& r,
                                float (&value)[kGroups][kEndGroup]) {
  const T* x = static_cast<const T*>(a.x) + r.place(a.from);
  const float* start = a.start ? a.start + r.shared(a.start_steps) : nullptr;
  const float* uniform = a.uniform ? a.uniform + r.dense(a) : nullptr;
  const bool aligned = is_aligned(start);
  float sum = 0.f, squares = 0.f;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t f = end_feature(g);
    if (f >= a.features) break;
    float first[kEndGroup] = {};
    load_group(x + f, value[g]);
    if (start) load_group(start + f, aligned, first);
    for (int k = 0; k < kEndGroup; ++k) {
      if (start) value[g][k] += first[k];
      if (uniform) value[g][k] *= dropout_factor(uniform[f + k], a.share);
      sum += value[g][k];
    }
  }
  const float mean = warp_sum(sum) / float(a.features);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (end_feature(g) >= a.features) break;
    for (int k = 0; k < kEndGroup; ++k) {
      value[g][k] -= mean;
      squares += value[g][k] * value[g][k];
    }
  }
  const float rstd = 1.f / sqrtf(warp_sum(squares) / float(a.features) + kLayerNormEps);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (end_feature(g) >= a.features) break;
    for (int k = 0; k < kEndGroup; ++k) value[g][k] *= rstd;
  }
  return rstd;
}

template <bool kFast>
__device__ inline float mish(float x) {
  const float w = exponential<kFast>(fminf(x, 20.f)), n = w * (w + 2.f);
  return x * quotient<kFast>(n, n + 2.f);
}

/// A lane's part of a row's end: its groups below `features`.
template <class T, int kGroups>
__device__ void ended_row(const DenseEndRows& a, const EndRow& r,
                          float (&value)[kGroups][kEndGroup]) {
  // large batches in bf16 would else wait for arithmetic, not for memory
  constexpr bool kFast = sizeof(T) == 2;
  constexpr bool kAhead = kGroups <= 2;
  constexpr int kHeld = kAhead ? kGroups : 1;
  const float *gain = a.gain + r.shared(a.gain_steps), *shift = a.shift + r.shared(a.gain_steps);
  const bool aligned = is_aligned(gain) && is_aligned(shift);
  float gains[kHeld][kEndGroup], shifts[kHeld][kEndGroup];
  const auto fetch = [&](int g, int to) {
    const int64_t f = end_feature(g);
    if (f >= a.features) return;
    load_group(gain + f, aligned, gains[to]), load_group(shift + f, aligned, shifts[to]);
  };
  // what memory gives is asked for at once, where few groups leave registers for it
  if (kAhead)
#pragma unroll
    for (int g = 0; g < kGroups; ++g) fetch(g, g);
  normalised_row<T, kGroups>(a, r, value);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (end_feature(g) >= a.features) break;
    const int held = kAhead ? g : 0;
    if (!kAhead) fetch(g, 0);
    for (int k = 0; k < kEndGroup; ++k) {
      value[g][k] = value[g][k] * gains[held][k] + shifts[held][k];
      if (a.end == DenseEnd::mish) value[g][k] = mish<kFast>(value[g][k]);
    }
    if (a.end == DenseEnd::simnorm) softmax_group<kFast>(value[g]);
  }
}

}  // namespace maglev
