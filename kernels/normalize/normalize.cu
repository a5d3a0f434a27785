#include "base/device/block.cuh"
#include "base/device/launch.cuh"
#include "kernels/normalize/normalize.h"

namespace maglev {
namespace {

constexpr int kThreads = int(kAbsorbThreads);

__global__ void normalize(NormalizeArgs args) {
  wait_for_earlier();
  int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= args.M * args.D) return;
  int64_t c = e % args.D;
  float rstd = 1.f / sqrtf(args.var[c] + 1e-8f);
  args.out[e] = clamp_to((args.x[e] - args.mean[c]) * rstd, args.clip);
}

// what blocks left, a thread every kThreads-th, then in a tree
__device__ ShiftedSums join_partials(const ShiftedSums* partial, int64_t count) {
  ShiftedSums mine{};
  for (int64_t p = threadIdx.x; p < count; p += kThreads) mine += partial[p];
  return block_sum<kThreads>(mine);
}

// scratch of absorb_columns: the count that moments had, then the partials of each column
__device__ ShiftedSums* partials_of(const AbsorbArgs& args) {
  return reinterpret_cast<ShiftedSums*>(args.scratch + 1);
}

__device__ double column_shift(const AbsorbArgs& args, double count, int64_t c) {
  return count > 0 ? args.moments.mean[c] : args.x[c];
}

// a block every gridDim.x-th set of rows of up to kThreads columns: threads side by side read
// floats side by side, and a thread stays in its column
__launch_bounds__(kThreads, 4) __global__ void absorb_columns(AbsorbArgs args) {
  wait_for_earlier();
  const int columns = int(absorb_columns_at_once(args.D)), rows = kThreads / columns;
  const int thread = int(threadIdx.x), row = thread / columns;
  const int64_t c = int64_t(blockIdx.y) * kThreads + thread % columns;
  const bool reads = row < rows && c < args.D;
  const double count = *args.moments.count;
  ShiftedSums mine{};
  if (reads) {
    const double shift = column_shift(args, count, c);
    const int64_t step = int64_t(gridDim.x) * rows;
#pragma unroll 8
    for (int64_t m = int64_t(blockIdx.x) * rows + row; m < args.M; m += step)
      add(mine, args.x[m * args.D + c] - shift, args.weight ? args.weight[m] : 1.f);
  }

  // a column's rows fold in halves
  __shared__ ShiftedSums all[kThreads];
  all[thread] = mine;
  for (int left = rows; left > 1;) {
    const int half = (left + 1) / 2;
    __syncthreads();
    if (row < left - half) all[thread] += all[thread + half * columns];
    left = half;
  }
  if (reads && row == 0) partials_of(args)[c * gridDim.x + blockIdx.x] = all[thread];
  if (blockIdx.x == 0 && blockIdx.y == 0 && thread == 0) args.scratch[0] = count;
}

// one block a column; the count that all of them merge with is the one kept, so that it can grow
// here
__global__ void join_columns(AbsorbArgs args, int64_t parts) {
  wait_for_earlier();
  const int64_t c = blockIdx.x;
  const ShiftedSums sums = join_partials(partials_of(args) + c * parts, parts);
  if (threadIdx.x != 0) return;
  const double count = args.scratch[0], shift = column_shift(args, count, c);
  merge(sums, shift, count, args.moments.mean[c], args.moments.var[c]);
  if (c == 0) *args.moments.count = count + sums.weight;
}

// scratch of scan_returns: two numbers, then a partial a block
enum { kShift, kFirstRunning, kReturnNumbers };

__device__ ShiftedSums* partials_of(const ReturnScanArgs& args) {
  return reinterpret_cast<ShiftedSums*>(args.scratch + kReturnNumbers);
}

__device__ double return_shift(const ReturnScanArgs& args) {
  return *args.moments.count > 0 ? *args.moments.mean
                                 : double(args.running[0] * args.gamma + args.reward[0]);
}

// one thread an environment
__launch_bounds__(kThreads, 4) __global__ void scan_returns(ReturnScanArgs args) {
  wait_for_earlier();
  const int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const double shift = return_shift(args);
  ShiftedSums mine{};
  if (n < args.N) {
    float running = args.running[n];
    // few environments are few threads, which would wait for memory at every step
#pragma unroll 8
    for (int64_t t = 0; t < args.T; ++t) {
      const int64_t i = t * args.N + n;
      running = running * args.gamma + args.reward[i];
      add(mine, running - shift, args.weight[i]);
      running *= 1.f - float(args.done[i]);
    }
    // every block's shift may need the first one as it was: the join moves it on
    if (n > 0) args.running[n] = running;
    else args.scratch[kShift] = shift, args.scratch[kFirstRunning] = running;
  }
  const ShiftedSums sums = block_sum<kThreads>(mine);
  if (threadIdx.x == 0) partials_of(args)[blockIdx.x] = sums;
}

__global__ void merge_returns(ReturnScanArgs args, int64_t parts) {
  wait_for_earlier();
  const ShiftedSums sums = join_partials(partials_of(args), parts);
  if (threadIdx.x != 0) return;
  merge(sums, args.scratch[kShift], *args.moments.count, *args.moments.mean, *args.moments.var);
  *args.moments.count += sums.weight;
  args.running[0] = float(args.scratch[kFirstRunning]);
}

}  // namespace

int normalize_cuda(const NormalizeArgs& args, void* stream) {
  return launch_kernel(normalize, thread_each(args.M * args.D, kThreads), stream, args);
}

int absorb_moments_cuda(const AbsorbArgs& args, void* stream) {
  if (args.M == 0) return int(cudaSuccess);
  const int64_t parts = absorb_parts(args.M, args.D);
  const LaunchShape shape{.grid = {parts, blocks_of(args.D, kThreads)}, .block = {kThreads}};
  if (const int error = launch_kernel(absorb_columns, shape, stream, args)) return error;
  return launch_kernel(join_columns, {.grid = {args.D}, .block = {kThreads}}, stream, args, parts);
}

int absorb_returns_cuda(const ReturnScanArgs& args, void* stream) {
  if (args.T == 0 || args.N == 0) return int(cudaSuccess);
  const LaunchShape shape = thread_each(args.N, kThreads);
  if (const int error = launch_kernel(scan_returns, shape, stream, args)) return error;
  return launch_kernel(merge_returns, {.block = {kThreads}}, stream, args, shape.grid.x);
}

}  // namespace maglev
