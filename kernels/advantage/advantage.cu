#include "kernels/advantage/advantage.cuh"

namespace maglev {
namespace {

// one block a chunk; in row 1 of the grid less `minus`
__global__ void chunk_statistics(AdvantageArgs args, const float* minus,
                                 AdvantagePartial* partial) {
  wait_for_earlier();
  const AdvantagePartial chunk =
      chunk_by_block(args, blockIdx.y == 1 ? minus : nullptr, blockIdx.x);
  if (threadIdx.x == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = chunk;
}

__global__ void join_chunks(const AdvantagePartial* partial, int64_t chunks,
                            AdvantageStatistics* statistics) {
  wait_for_earlier();
  const AdvantagePartial all = join_by_block(partial, chunks);
  if (threadIdx.x == 0) *statistics = advantage_finish(all);
}

// behind the chunks of the targets lie those of what values leave of them
__global__ void explain(const AdvantagePartial* partial, int64_t chunks, float* explained) {
  wait_for_earlier();
  const AdvantagePartial spread = join_by_block(partial, chunks);
  const AdvantagePartial rest = join_by_block(partial + chunks, chunks);
  if (threadIdx.x == 0) *explained = advantage_explained(spread.squares, rest.squares);
}

}  // namespace

int advantage_partials_cuda(const AdvantageArgs& args, AdvantagePartial* partial, void* stream) {
  return launch_kernel(chunk_statistics,
                       {.grid = {advantage_chunks(args.count)}, .block = {kJoinThreads}}, stream,
                       args, nullptr, partial);
}

int advantage_cuda(const AdvantageArgs& args, AdvantagePartial* partial,
                   AdvantageStatistics* statistics, void* stream) {
  if (const int error = advantage_partials_cuda(args, partial, stream)) return error;
  return launch_kernel(join_chunks, {.block = {kJoinThreads}}, stream, partial,
                       advantage_chunks(args.count), statistics);
}

int explained_variance_cuda(const AdvantageArgs& args, const float* value,
                            AdvantagePartial* partial, float* explained, void* stream) {
  const int64_t chunks = advantage_chunks(args.count);
  if (const int error =
          launch_kernel(chunk_statistics, {.grid = {chunks, 2}, .block = {kJoinThreads}}, stream,
                        args, value, partial))
    return error;
  return launch_kernel(explain, {.block = {kJoinThreads}}, stream, partial, chunks, explained);
}

}  // namespace maglev
