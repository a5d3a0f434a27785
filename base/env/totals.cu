#include "base/device/block.cuh"
#include "base/device/launch.cuh"
#include "base/env/batch.h"
#include "base/env/totals.h"

namespace maglev {
namespace {

constexpr int kThreads = int(kTotalsThreads);

__device__ void add_block(const EpisodeTotals& mine, EpisodeTotals* to) {
  const EpisodeTotals all = block_sum<kThreads>(mine);
  if (threadIdx.x == 0) *to = all;
}

// a thread one slot of as many as the grid has threads, then the next
__global__ void sum_slots(const __grid_constant__ EnvBatch batch, EpisodeTotals* partial,
                          int64_t count) {
  wait_for_earlier();
  EpisodeTotals mine{};
  const int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    mine += take_slot_totals(head_of(batch, i));
  add_block(mine, partial + blockIdx.x);
}

__global__ void join_totals(const EpisodeTotals* partial, int64_t parts, EpisodeTotals* into) {
  wait_for_earlier();
  EpisodeTotals mine{};
  for (int64_t p = threadIdx.x; p < parts; p += kThreads) mine += partial[p];
  add_block(mine, into);
}

}  // namespace

int take_totals_cuda(const EnvBatch& batch, EpisodeTotals* partial, EpisodeTotals* into,
                     int64_t count, void* stream) {
  const int64_t parts = totals_parts(count);
  const LaunchShape shape{.grid = {parts}, .block = {kThreads}};
  if (const int error = launch_kernel(sum_slots, shape, stream, batch, partial, count))
    return error;
  return launch_kernel(join_totals, {.block = {kThreads}}, stream, partial, parts, into);
}

}  // namespace maglev
