#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/adam/adam.h"

namespace maglev {
namespace {

constexpr int kThreads = 256, kClipThreads = 512;

__device__ int64_t group_of(const AdamArgs& args, int64_t i) {
  int64_t g = 0;
  while (g + 1 < args.group_count && i >= args.groups[g + 1].begin) ++g;
  return g;
}

// one block a chunk: lanes into lane 0, sums of squares in a tree whose shape is fixed
__global__ void reduce_chunks(AdamArgs args) {
  __shared__ double shared[kThreads];
  const int64_t begin = blockIdx.x * kAdamChunk, end = min(begin + kAdamChunk, args.P);
  const float unscale = args.unscale ? *args.unscale : 1.f;
  for (int64_t g = 0; g < args.group_count; ++g) {
    const AdamGroup group = args.groups[g];
    const int64_t first = max(begin, group.begin), last = min(end, group.begin + group.count);
    double squares = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += kThreads) {
      float sum = args.grad[i];
      for (int64_t l = 1; l < args.lanes; ++l) sum += args.grad[l * args.lane_stride + i];
      sum *= unscale;
      args.grad[i] = sum;
      squares += double(sum) * double(sum);
    }
    __syncthreads();
    shared[threadIdx.x] = squares;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (int(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0) args.partial[blockIdx.x * args.group_count + g] = shared[0];
  }
}

// one block: a warp a group, whose sum takes the place of its first chunk's
__global__ void clip(AdamArgs args) {
  const int64_t chunks = adam_chunks(args.P), lane = threadIdx.x % 32;
  for (int64_t g = threadIdx.x / 32; g < args.group_count; g += kClipThreads / 32) {
    double squares = 0;
    for (int64_t c = lane; c < chunks; c += 32) squares += args.partial[c * args.group_count + g];
    squares = warp_sum(squares);
    if (lane == 0) args.partial[g] = squares, args.factor[g] = adam_clip_factor(args, squares);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double whole = 0;
  for (int64_t g = 0; g < args.group_count; ++g) whole += args.partial[g];
  adam_finish_clip(args, whole);
}

__global__ void begin_step(AdamArgs args) { adam_begin_step(args); }

__global__ void step_elements(AdamArgs args) {
  const AdamStep s = *args.step;
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.P || s.apply == 0) return;
  const int64_t group = group_of(args, i);
  const AdamRate rate = adam_rate(args, group);
  const float grad = args.grad[i] * args.factor[group];
  const float first = args.first[i] + float(1 - args.beta1) * (grad - args.first[i]);
  const float second = args.second[i] * float(args.beta2) + float(1 - args.beta2) * grad * grad;
  const float denominator = sqrtf(second) / s.root_bias2 + float(args.eps);
  args.grad[i] = grad, args.first[i] = first, args.second[i] = second;
  args.data[i] = args.data[i] * rate.keep - rate.step_size * (first / denominator);
}

}  // namespace

int adam_reduce_cuda(const AdamArgs& args, void* stream) {
  return launch_kernel(reduce_chunks, {.grid = {adam_chunks(args.P)}, .block = {kThreads}}, stream,
                       args);
}

int adam_clip_cuda(const AdamArgs& args, void* stream) {
  return launch_kernel(clip, {.block = {kClipThreads}}, stream, args);
}

int adam_step_cuda(const AdamArgs& args, void* stream) {
  if (const int error = launch_kernel(begin_step, kOneThread, stream, args)) return error;
  return launch_kernel(step_elements, thread_each(args.P, kThreads), stream, args);
}

}  // namespace maglev
