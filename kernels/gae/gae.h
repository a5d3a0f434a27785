#pragma once
// Generalised advantage estimation (Schulman et al., "High-dimensional continuous control using
// generalized advantage estimation", 2016) over a rollout with next-step auto-reset.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

/// Columns time first; `next_is_first` is is_first of rows 1..T: where it is set, the step only
/// reset the environment and its advantage is 0.
struct GaeArgs {
  const float* reward;           ///< [T, N]
  const float* value;            ///< [T+1, N], row T is the bootstrap
  const uint8_t* terminated;     ///< [T, N]
  const uint8_t* next_is_first;  ///< [T, N]
  float* advantage;              ///< [T, N], written
  float* returns;                ///< [T, N], advantage + value, written; or null
  float* valid;                  ///< [T, N], 0 where a step only reset, else 1, written; or null
  int64_t T, N;
  float gamma, lambda;  ///< in [0, 1]
};

/// One environment's column, walking back. The row after an episode's last one holds its final
/// observation, so a truncated episode bootstraps from value[t+1] with no special case; the reset
/// step behind it cuts the trace.
MAGLEV_HD void gae_column(const GaeArgs& a, int64_t n) {
  float next_advantage = 0.f;
  float next_value = a.value[a.T * a.N + n];
  for (int64_t t = a.T - 1; t >= 0; --t) {
    const int64_t i = t * a.N + n;
    const float value = a.value[i];
    const float live = a.terminated[i] ? 0.f : 1.f;
    const float delta = a.reward[i] + a.gamma * next_value * live - value;
    next_advantage = a.next_is_first[i] ? 0.f : delta + a.gamma * a.lambda * live * next_advantage;
    a.advantage[i] = next_advantage;
    if (a.returns) a.returns[i] = next_advantage + value;
    if (a.valid) a.valid[i] = a.next_is_first[i] ? 0.f : 1.f;
    next_value = value;
  }
}

void gae_cpu(const GaeArgs& args);
/// On `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int gae_cuda(const GaeArgs& args, void* stream);

}  // namespace maglev
