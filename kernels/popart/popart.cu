#include "base/device/launch.cuh"
#include "kernels/popart/popart.h"

namespace maglev {
namespace {

// as many as one block has: it is alone, and returns are many
constexpr int kThreads = 1024;

// one block: the sums must be known before anything is rescaled
__global__ void popart(PopArtArgs args) {
  __shared__ ReturnSums all[kThreads];
  const double mean = *args.mean;
  ReturnSums mine{};
  for (int64_t i = threadIdx.x; i < args.M; i += kThreads)
    add(mine, args.returns[i] - mean, args.weight[i]);
  all[threadIdx.x] = mine;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) {
      all[threadIdx.x].weight += all[threadIdx.x + half].weight;
      all[threadIdx.x].first += all[threadIdx.x + half].first;
      all[threadIdx.x].second += all[threadIdx.x + half].second;
    }
  }
  if (threadIdx.x == 0) popart_scalars(args, all[0]);
  __syncthreads();
  const float scale = *args.scale;
  for (int64_t i = threadIdx.x; i <= args.F; i += kThreads) {
    if (i < args.F) args.head_weight[i] *= scale;
    if (!args.adam_first) continue;
    args.adam_first[i] *= scale;
    args.adam_second[i] *= scale * scale;
  }
}

}  // namespace

int popart_cuda(const PopArtArgs& args, void* stream) {
  return launch_kernel(popart, {.block = {kThreads}}, stream, args);
}

}  // namespace maglev
