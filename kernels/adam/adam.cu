#include "base/device/block.cuh"
#include "base/device/launch.cuh"
#include "kernels/adam/adam.h"

namespace maglev {
namespace {

constexpr int kThreads = 256, kClipThreads = 512;

__device__ int64_t group_of(const AdamArgs& args, int64_t i) {
  int64_t g = 0;
  while (g + 1 < args.group_count && i >= args.groups[g + 1].begin) ++g;
  return g;
}

// a block a chunk: kSplits warps add lanes w, w + kSplits, ... of each element, their sums follow
// in order; then the sum of squares in a tree whose shape is fixed
template <int kSplits>
__global__ void reduce_chunks(AdamArgs args) {
  wait_for_earlier();
  constexpr int kChunk = int(kAdamDeviceChunk), kEach = kChunk / 32;
  static_assert(kSplits == 1 || kSplits == 32);
  __shared__ float sums[kSplits][kChunk];
  const int split = int(threadIdx.x) / (kSplits == 1 ? kChunk : 32);
  const int first = int(threadIdx.x) % (kSplits == 1 ? kChunk : 32);
  const int64_t begin = blockIdx.x * kAdamDeviceChunk, end = min(begin + kAdamDeviceChunk, args.P);
  for (int e = 0; e < (kSplits == 1 ? 1 : kEach); ++e) {
    const int at = first + 32 * e;
    float sum = 0.f;
    if (begin + at < end)
      for (int64_t l = split; l < args.lanes; l += kSplits)
        sum += args.grad[l * args.lane_stride + begin + at];
    sums[split][at] = sum;
  }
  __syncthreads();
  // from here on a thread has an element
  const int at = int(threadIdx.x);
  const int64_t i = begin + at;
  float sum = 0.f;
  if (at < kChunk && i < end) {
    sum = sums[0][at];
    for (int s = 1; s < kSplits; ++s) sum += sums[s][at];
    sum *= args.unscale ? *args.unscale : 1.f;
    args.grad[i] = sum;
  }
  for (int64_t g = 0; g < args.group_count; ++g) {
    const AdamGroup group = args.groups[g];
    const bool within = i >= group.begin && i < group.begin + group.count;
    const double squares = block_sum<kChunk>(within ? double(sum) * double(sum) : 0.);
    if (at == 0) args.partial[blockIdx.x * args.group_count + g] = squares;
  }
}

// one block: all of it adds the chunks of one group after another
__global__ void clip(AdamArgs args) {
  wait_for_earlier();
  const int64_t chunks = adam_device_chunks(args.P);
  double whole = 0;
  for (int64_t g = 0; g < args.group_count; ++g) {
    double squares = 0;
    for (int64_t c = threadIdx.x; c < chunks; c += kClipThreads)
      squares += args.partial[c * args.group_count + g];
    squares = block_sum<kClipThreads>(squares);
    if (threadIdx.x == 0) whole += squares, args.factor[g] = adam_clip_factor(args, squares);
  }
  if (threadIdx.x == 0) adam_finish_clip(args, whole);
}

__global__ void step_elements(AdamArgs args) {
  wait_for_earlier();
  // two powers a block: a launch of their own would cost more
  __shared__ AdamStep s;
  if (threadIdx.x == 0) s = adam_begun_step(args);
  __syncthreads();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.P || s.apply == 0) return;
  const int64_t group = group_of(args, i);
  const AdamRate rate = adam_rate(args, s, group);
  const float grad = args.grad[i] * args.factor[group];
  const float first = args.first[i] + float(1 - args.beta1) * (grad - args.first[i]);
  const float second = args.second[i] * float(args.beta2) + float(1 - args.beta2) * grad * grad;
  const float denominator = sqrtf(second) / s.root_bias2 + float(args.eps);
  args.grad[i] = grad, args.first[i] = first, args.second[i] = second;
  args.data[i] = args.data[i] * rate.keep - rate.step_size * (first / denominator);
}

}  // namespace

int adam_reduce_cuda(const AdamArgs& args, void* stream) {
  const Extent grid{adam_device_chunks(args.P)};
  // as many threads as pay: a single lane has nothing to split
  if (args.lanes < 32)
    return launch_kernel(reduce_chunks<1>, {.grid = grid, .block = {kAdamDeviceChunk}}, stream,
                         args);
  return launch_kernel(reduce_chunks<32>, {.grid = grid, .block = {1024}}, stream, args);
}

int adam_clip_cuda(const AdamArgs& args, void* stream) {
  return launch_kernel(clip, {.block = {kClipThreads}}, stream, args);
}

int adam_step_cuda(const AdamArgs& args, void* stream) {
  return launch_kernel(step_elements, thread_each(args.P, kThreads), stream, args);
}

}  // namespace maglev
