#pragma once
// What the 32 threads of a warp find together; all of them call these.

#include <cuda_runtime.h>

namespace maglev {

constexpr int kWarpThreads = 32;

/// The sum of all threads' `x`, in a fixed order, in every thread.
template <class T>
__device__ T warp_sum(T x) {
  for (int half = kWarpThreads / 2; half > 0; half /= 2) x += __shfl_xor_sync(~0u, x, half);
  return x;
}

/// The largest of all threads' `x`, in every thread.
__device__ inline float warp_max(float x) {
  for (int half = kWarpThreads / 2; half > 0; half /= 2)
    x = fmaxf(x, __shfl_xor_sync(~0u, x, half));
  return x;
}

/// The least of all threads' `x`, in every thread.
template <class T>
__device__ T warp_min(T x) {
  for (int half = kWarpThreads / 2; half > 0; half /= 2) x = min(x, __shfl_xor_sync(~0u, x, half));
  return x;
}

}  // namespace maglev
