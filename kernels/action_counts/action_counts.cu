#include "base/device/launch.cuh"
#include "kernels/action_counts/action_counts.h"

namespace maglev {
namespace {

constexpr int kThreads = 256, kMostBlocks = 128;

// a block counts in its own memory; the sums are whole numbers, which add up the same in any order
__global__ void count_actions(ActionCountArgs args) {
  wait_for_earlier();
  __shared__ int counts[kCountedCategories + 1];
  for (int k = int(threadIdx.x); k <= kCountedCategories; k += kThreads) counts[k] = 0;
  __syncthreads();
  const int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t row = int64_t(blockIdx.x) * kThreads + threadIdx.x; row < args.rows; row += step) {
    if (args.reset[row] != 0) continue;
    for (int head = 0; head < args.heads; ++head)
      atomicAdd(&counts[args.begin[head] + args.action[row * args.heads + head]], 1);
    atomicAdd(&counts[kCountedCategories], 1);
  }
  __syncthreads();
  for (int k = int(threadIdx.x); k < args.categories; k += kThreads) {
    atomicAdd(&args.counts[k], float(counts[k]));
    atomicAdd(&args.taken[k], float(counts[kCountedCategories]));
  }
}

}  // namespace

int action_counts_cuda(const ActionCountArgs& args, void* stream) {
  const int64_t blocks = blocks_of(args.rows, kThreads);
  return launch_kernel(count_actions,
                       {.grid = {blocks < kMostBlocks ? blocks : kMostBlocks}, .block = {kThreads}},
                       stream, args);
}

}  // namespace maglev
