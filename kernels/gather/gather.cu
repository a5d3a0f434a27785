#include "base/device/launch.cuh"
#include "kernels/gather/gather.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

template <class Word>
__device__ void copy_row(const GatherColumn& column, int64_t from, int64_t to, int lane,
                         int lanes) {
  const int64_t words = column.row_bytes / int64_t(sizeof(Word));
  const auto* source = static_cast<const Word*>(column.from) + from * words;
  auto* target = static_cast<Word*>(column.to) + to * words;
  for (int64_t w = lane; w < words; w += lanes) target[w] = source[w];
}

// blockIdx.y is the column; `lanes` neighbouring threads share a row
__global__ void gather(GatherArgs args, int lanes) {
  wait_for_earlier();
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t i = thread / lanes;
  if (i >= args.B) return;
  const GatherColumn column = args.columns[blockIdx.y];
  const int64_t row =
      args.index ? args.index[i] : int64_t(permutation_of(args.order)(uint64_t(args.first + i)));
  const int lane = int(thread % lanes);
  const uint64_t places = uint64_t(column.from) | uint64_t(column.to) | uint64_t(column.row_bytes);
  if (places % 16 == 0) copy_row<uint4>(column, row, i, lane, lanes);
  else if (places % 4 == 0) copy_row<uint32_t>(column, row, i, lane, lanes);
  else copy_row<uint8_t>(column, row, i, lane, lanes);
}

}  // namespace

int gather_cuda(const GatherArgs& args, void* stream) {
  int64_t widest = 0;
  for (int c = 0; c < args.count; ++c)
    widest = args.columns[c].row_bytes > widest ? args.columns[c].row_bytes : widest;
  // one word of 16 bytes a thread, at most 4096 threads a row
  int lanes = 1;
  while (lanes < 4096 && lanes * 16 < widest) lanes *= 2;
  const LaunchShape shape{.grid = {blocks_of(args.B * lanes, kThreads), args.count},
                          .block = {kThreads}};
  return launch_kernel(gather, shape, stream, args, lanes);
}

}  // namespace maglev
