#pragma once
// Lambda returns (Sutton and Barto, "Reinforcement learning", 2018, 12.1) of trajectories whose
// futures count by a share:
//   R_t = reward' + live ((1 - more) value' + more R'), live = discount (1 - terminated'),
//   more = lambda (1 - ended'), and R_T = value_T, where ' is of step t + 1.

#include <cstdint>

#include "base/core/hd.h"

namespace maglev {

struct LambdaReturnArgs {
  int64_t T, N;
  const float *reward, *value, *terminated;  ///< [T + 1, N]
  const float* ended;                        ///< [T + 1, N]; null: 0
  float discount, lambda;
  float* returns;  ///< [T, N], written
};

/// One trajectory, walking back.
MAGLEV_HD void lambda_return_column(const LambdaReturnArgs& a, int64_t n) {
  float next = a.value[a.T * a.N + n];
  for (int64_t t = a.T - 1; t >= 0; --t) {
    const int64_t i = (t + 1) * a.N + n;
    const float live = a.discount * (1.f - a.terminated[i]);
    const float more = a.lambda * (1.f - (a.ended ? a.ended[i] : 0.f));
    next = a.reward[i] + live * ((1.f - more) * a.value[i] + more * next);
    a.returns[t * a.N + n] = next;
  }
}

inline void lambda_returns_cpu(const LambdaReturnArgs& a) {
  for (int64_t n = 0; n < a.N; ++n) lambda_return_column(a, n);
}
/// On `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int lambda_returns_cuda(const LambdaReturnArgs& args, void* stream);

}  // namespace maglev
