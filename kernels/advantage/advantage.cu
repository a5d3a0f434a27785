#include "base/device/launch.cuh"
#include "kernels/advantage/advantage.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

// the same number for every thread, summed in a tree whose shape is fixed
__device__ double sum_of_block(double x) {
  __shared__ double shared[kThreads];
  __syncthreads();
  shared[threadIdx.x] = x;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  return shared[0];
}

// one block a chunk
__global__ void chunk_statistics(AdvantageArgs args, AdvantagePartial* partial) {
  constexpr int kEach = int(kAdvantageChunk) / kThreads;
  double advantage[kEach], valid[kEach], count = 0, sum = 0, squares = 0;
  for (int e = 0; e < kEach; ++e) {
    const int64_t i = blockIdx.x * kAdvantageChunk + e * kThreads + threadIdx.x;
    const int64_t at = i >= args.count ? -1 : args.index ? args.index[i] : i;
    advantage[e] = at < 0 ? 0. : double(args.advantage[at]);
    valid[e] = at < 0 ? 0. : double(args.valid[at]);
    count += valid[e];
    sum += advantage[e] * valid[e];
  }
  count = sum_of_block(count);
  const double mean = sum_of_block(sum) / fmax(count, 1.);
  for (int e = 0; e < kEach; ++e) {
    const double centred = (advantage[e] - mean) * valid[e];
    squares += centred * centred;
  }
  squares = sum_of_block(squares);
  if (threadIdx.x == 0) partial[blockIdx.x] = {count, mean, squares};
}

// one block: a thread joins a share of the chunks in order, then shares join in a tree
__global__ void join_chunks(const AdvantagePartial* partial, int64_t chunks,
                            AdvantageStatistics* statistics) {
  __shared__ AdvantagePartial shared[kThreads];
  const int thread = int(threadIdx.x);
  const int64_t share = blocks_of(chunks, kThreads), first = thread * share;
  shared[thread] = advantage_join(partial + first, min(share, chunks - first));
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) advantage_join(shared[thread], shared[thread + half]);
  }
  if (thread == 0) *statistics = advantage_finish(shared[0]);
}

}  // namespace

int advantage_cuda(const AdvantageArgs& args, AdvantagePartial* partial,
                   AdvantageStatistics* statistics, void* stream) {
  const int64_t chunks = advantage_chunks(args.count);
  if (const int error = launch_kernel(chunk_statistics, {.grid = {chunks}, .block = {kThreads}},
                                      stream, args, partial))
    return error;
  return launch_kernel(join_chunks, {.block = {kThreads}}, stream, partial, chunks, statistics);
}

}  // namespace maglev
