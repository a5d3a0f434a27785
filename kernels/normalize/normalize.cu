#include "base/device/launch.cuh"
#include "kernels/normalize/normalize.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

__global__ void normalize(NormalizeArgs args) {
  int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= args.M * args.D) return;
  int64_t c = e % args.D;
  float rstd = 1.f / sqrtf(args.var[c] + 1e-8f);
  args.out[e] = clamp_to((args.x[e] - args.mean[c]) * rstd, args.clip);
}

// the block's sums, added in the order of a tree, in thread 0
__device__ ShiftedSums block_sum(ShiftedSums mine) {
  __shared__ ShiftedSums all[kThreads];
  all[threadIdx.x] = mine;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) {
      all[threadIdx.x].weight += all[threadIdx.x + half].weight;
      all[threadIdx.x].first += all[threadIdx.x + half].first;
      all[threadIdx.x].second += all[threadIdx.x + half].second;
    }
  }
  __syncthreads();
  return all[0];
}

// one block a column; scratch[0] is the weight that count grows by behind them
__global__ void absorb_columns(AbsorbArgs args) {
  const int64_t c = blockIdx.x;
  const double count = *args.moments.count;
  const double shift = count > 0 ? args.moments.mean[c] : args.x[c];
  ShiftedSums mine{};
  for (int64_t m = threadIdx.x; m < args.M; m += kThreads)
    add(mine, args.x[m * args.D + c], args.weight ? args.weight[m] : 1.0, shift);
  const ShiftedSums sums = block_sum(mine);
  if (threadIdx.x != 0) return;
  merge(sums, shift, count, args.moments.mean[c], args.moments.var[c]);
  if (c == 0) args.scratch[0] = sums.weight;
}

__global__ void add_count(double* count, const double* fresh) { *count += *fresh; }

__device__ double return_shift(const ReturnScanArgs& args) {
  return *args.moments.count > 0 ? *args.moments.mean
                                 : double(args.running[0] * args.gamma + args.reward[0]);
}

// scratch[3 * N]: the shift that the first element's thread would otherwise overwrite
__global__ void keep_shift(ReturnScanArgs args) { args.scratch[3 * args.N] = return_shift(args); }

// one thread an environment; its sums go to scratch
__global__ void scan_returns(ReturnScanArgs args) {
  int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= args.N) return;
  const double shift = args.scratch[3 * args.N];
  float running = args.running[n];
  ShiftedSums sums{};
  for (int64_t t = 0; t < args.T; ++t) {
    const int64_t i = t * args.N + n;
    running = running * args.gamma + args.reward[i];
    add(sums, running, args.weight[i], shift);
    running *= 1.f - float(args.done[i]);
  }
  args.running[n] = running;
  args.scratch[n] = sums.first;
  args.scratch[args.N + n] = sums.second;
  args.scratch[2 * args.N + n] = sums.weight;
}

__global__ void merge_returns(ReturnScanArgs args) {
  ShiftedSums mine{};
  for (int64_t n = threadIdx.x; n < args.N; n += kThreads) {
    mine.first += args.scratch[n];
    mine.second += args.scratch[args.N + n];
    mine.weight += args.scratch[2 * args.N + n];
  }
  const ShiftedSums sums = block_sum(mine);
  if (threadIdx.x != 0) return;
  merge(sums, args.scratch[3 * args.N], *args.moments.count, *args.moments.mean, *args.moments.var);
  *args.moments.count += sums.weight;
}

}  // namespace

int normalize_cuda(const NormalizeArgs& args, void* stream) {
  return launch_kernel(normalize, thread_each(args.M * args.D, kThreads), stream, args);
}

int absorb_moments_cuda(const AbsorbArgs& args, void* stream) {
  if (const int error =
          launch_kernel(absorb_columns, {.grid = {args.D}, .block = {kThreads}}, stream, args))
    return error;
  return launch_kernel(add_count, kOneThread, stream, args.moments.count, args.scratch);
}

int absorb_returns_cuda(const ReturnScanArgs& args, void* stream) {
  if (const int error = launch_kernel(keep_shift, kOneThread, stream, args)) return error;
  if (const int error = launch_kernel(scan_returns, thread_each(args.N, kThreads), stream, args))
    return error;
  return launch_kernel(merge_returns, {.block = {kThreads}}, stream, args);
}

}  // namespace maglev
