#include <new>

#include "base/device/launch.cuh"
#include "base/env/batch.h"
#include "base/env/totals.h"

namespace maglev {
namespace {

constexpr int kThreads = 128;

// one block: a flush is rare, and the order of adding is the same each time
__global__ void reduce_slots(EnvBatch batch, EpisodeTotals* into, int64_t count) {
  __shared__ std::byte memory alignas(EpisodeTotals)[kThreads * sizeof(EpisodeTotals)];
  auto* parts = reinterpret_cast<EpisodeTotals*>(memory);
  auto* mine = new (parts + threadIdx.x) EpisodeTotals{};
  for (int64_t i = threadIdx.x; i < count; i += kThreads)
    take_slot_totals(*reinterpret_cast<SlotHead*>(batch.slots + size_t(i) * batch.slot_bytes),
                     *mine);
  __syncthreads();
  if (threadIdx.x != 0) return;
  EpisodeTotals total{};
  for (int t = 0; t < kThreads; ++t) add_totals(parts[t], total);
  *into = total;
}

}  // namespace

int take_totals_cuda(const EnvBatch& batch, EpisodeTotals* into, int64_t count, void* stream) {
  return launch_kernel(reduce_slots, {.block = {kThreads}}, stream, batch, into, count);
}

}  // namespace maglev
