#include "base/device/launch.cuh"
#include "kernels/finite/finite.h"

namespace maglev {
namespace {

constexpr int kThreads = 256, kMostBlocks = 512;

// blockIdx.y is the column. Who finds something writes, which is nobody as a rule
__global__ void look(FiniteArgs args) {
  wait_for_earlier();
  const float* column = args.column[blockIdx.y];
  const int64_t count = args.count[blockIdx.y], step = int64_t(gridDim.x) * kThreads;
  bool bad = false;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    bad |= !(column[i] - column[i] == 0.f);
  if (bad) atomicExch(args.flag, 0.f);
}

}  // namespace

int finite_cuda(const FiniteArgs& args, void* stream) {
  int64_t most = 0;
  for (int c = 0; c < args.columns; ++c) most = args.count[c] > most ? args.count[c] : most;
  const int64_t blocks = blocks_of(most, kThreads);
  return launch_kernel(
      look,
      {.grid = {blocks < kMostBlocks ? blocks : kMostBlocks, args.columns}, .block = {kThreads}},
      stream, args);
}

}  // namespace maglev
