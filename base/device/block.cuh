#pragma once
// What the threads of a block find together; all of them call these.

#include <cstddef>
#include <new>

#include <cuda_runtime.h>

namespace maglev {

/// The sum of what the first kCount threads have, in every thread; others bring nothing, but a block
/// has kCount threads at least, in one dimension. `all += part` adds, in a tree whose shape is fixed:
/// thread t first takes what thread t + kCount / 2 has. kCount is a power of two.
template <int kCount, class Part>
__device__ Part block_sum(const Part& mine) {
  static_assert(kCount > 0 && (kCount & (kCount - 1)) == 0);
  // bytes, for shared memory has no constructors
  __shared__ std::byte memory alignas(Part)[kCount * sizeof(Part)];
  Part* all = reinterpret_cast<Part*>(memory);
  const int thread = int(threadIdx.x);
  // some may still read what the call before left here
  __syncthreads();
  if (thread < kCount) new (all + thread) Part(mine);
  for (int half = kCount / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) all[thread] += all[thread + half];
  }
  __syncthreads();
  return all[0];
}

}  // namespace maglev
