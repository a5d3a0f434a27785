#include "kernels/gae/gae.h"

#include <algorithm>

namespace maglev {

// time outside, environments inside: rows are read in order and the inner loop has no carried
// dependence
void gae_cpu(const GaeArgs& a) {
  for (int64_t t = a.T - 1; t >= 0; --t) {
    const float* __restrict next_value = a.value + (t + 1) * a.N;
    const float* __restrict value = a.value + t * a.N;
    const float* __restrict reward = a.reward + t * a.N;
    const uint8_t* __restrict terminated = a.terminated + t * a.N;
    const uint8_t* __restrict first = a.next_is_first + t * a.N;
    float* __restrict out = a.advantage + t * a.N;
    const float* next = t + 1 < a.T ? a.advantage + (t + 1) * a.N : nullptr;
    for (int64_t n = 0; n < a.N; ++n) {
      const float live = terminated[n] ? 0.f : 1.f;
      const float delta = reward[n] + a.gamma * next_value[n] * live - value[n];
      const float advantage = delta + a.gamma * a.lambda * live * (next ? next[n] : 0.f);
      out[n] = first[n] ? 0.f : advantage;
    }
    if (a.returns)
      for (int64_t n = 0; n < a.N; ++n) a.returns[t * a.N + n] = out[n] + value[n];
    if (a.valid)
      for (int64_t n = 0; n < a.N; ++n) a.valid[t * a.N + n] = first[n] ? 0.f : 1.f;
  }
}

}  // namespace maglev
