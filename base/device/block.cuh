#pragma once
// What the threads of a block find together; all of them call these.

#include <cuda_runtime.h>

namespace maglev {

/// The sum of what the first kCount threads have, in every thread; others bring nothing. `all +=
/// part` adds, in a tree whose shape is fixed: thread t first takes what thread t + kCount / 2 has.
/// kCount is a power of two.
template <int kCount, class Part>
__device__ Part block_sum(const Part& mine) {
  static_assert(kCount > 0 && (kCount & (kCount - 1)) == 0);
  __shared__ Part all[kCount];
  const int thread = int(threadIdx.x);
  // some may still read what the call before left here
  __syncthreads();
  if (thread < kCount) all[thread] = mine;
  for (int half = kCount / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) all[thread] += all[thread + half];
  }
  __syncthreads();
  return all[0];
}

}  // namespace maglev
