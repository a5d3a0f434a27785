#pragma once
// Partials of advantages, found and joined by one block of threads, for who goes on with what they
// give.

#include "base/device/block.cuh"
#include "base/device/launch.cuh"
#include "kernels/advantage/advantage.h"

namespace maglev {

constexpr int kJoinThreads = 256;

/// One chunk's partial, of advantages less `minus` where that is not null. All kJoinThreads of a
/// block call this, as what follows; every thread has the result.
__device__ inline AdvantagePartial chunk_by_block(const AdvantageArgs& args, const float* minus,
                                                  int64_t chunk) {
  constexpr int kEach = int(kAdvantageChunk) / kJoinThreads;
  double advantage[kEach], valid[kEach], count = 0, sum = 0, squares = 0;
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = chunk * kAdvantageChunk + e * kJoinThreads + threadIdx.x;
    const int64_t at = i >= args.count ? -1 : args.index ? args.index[i] : i;
    advantage[e] = at < 0 ? 0. : double(args.advantage[at]);
    if (at >= 0 && minus) advantage[e] -= double(minus[at]);
    valid[e] = at < 0 ? 0. : double(args.valid[at]);
    count += valid[e];
    sum += advantage[e] * valid[e];
  }
  count = block_sum<kJoinThreads>(count);
  const double mean = block_sum<kJoinThreads>(sum) / fmax(count, 1.);
  for (int e = 0; e < kEach; ++e) {
    const double centred = (advantage[e] - mean) * valid[e];
    squares += centred * centred;
  }
  squares = block_sum<kJoinThreads>(squares);
  return {count, mean, squares};
}

/// Joins partials [chunks]: a thread a share of them in order, then shares in a tree.
__device__ inline AdvantagePartial join_by_block(const AdvantagePartial* partial, int64_t chunks) {
  const int64_t share = blocks_of(chunks, kJoinThreads), first = threadIdx.x * share;
  return block_sum<kJoinThreads>(advantage_join(partial + first, min(share, chunks - first)));
}

}  // namespace maglev
