#include "base/device/block.cuh"
#include "base/device/launch.cuh"
#include "kernels/popart/popart.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

// a thread one return of as many as the grid has threads, then the next; loads are underway
// together
__launch_bounds__(kThreads, 4) __global__ void sum_returns(PopArtArgs args, ShiftedSums* partial) {
  wait_for_earlier();
  const double mean = *args.mean;
  const int64_t step = int64_t(gridDim.x) * kThreads;
  ShiftedSums mine{};
#pragma unroll 8
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < args.M; i += step)
    add(mine, args.returns[i] - mean, args.weight[i]);
  const ShiftedSums sums = block_sum<kThreads>(mine);
  if (threadIdx.x == 0) partial[blockIdx.x] = sums;
}

// one block: the sums must be known before anything is rescaled
__global__ void popart(PopArtArgs args, const ShiftedSums* partial, int64_t parts) {
  wait_for_earlier();
  ShiftedSums mine{};
  for (int64_t p = threadIdx.x; p < parts; p += kThreads) mine += partial[p];
  const ShiftedSums sums = block_sum<kThreads>(mine);
  if (threadIdx.x == 0) popart_scalars(args, sums);
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

int popart_cuda(const PopArtArgs& args, ShiftedSums* partial, void* stream) {
  const int64_t parts = popart_parts(args.M);
  const LaunchShape shape{.grid = {parts}, .block = {kThreads}};
  if (const int error = launch_kernel(sum_returns, shape, stream, args, partial)) return error;
  return launch_kernel(popart, {.block = {kThreads}}, stream, args, partial, parts);
}

}  // namespace maglev
