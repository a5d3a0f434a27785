#include "base/device/block.cuh"
#include "base/device/launch.cuh"
#include "kernels/laprop/laprop.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

// a block a chunk
__global__ void reduce(LaPropArgs a) {
  wait_for_earlier();
  const LaPropChunk chunk = a.chunks[blockIdx.x];
  double grad = 0, data = 0;
  for (int64_t i = chunk.begin + threadIdx.x; i < chunk.begin + chunk.count; i += kThreads) {
    float sum = a.grad[i];
    for (int64_t l = 1; l < a.lanes; ++l) sum += a.grad[l * a.lane_stride + i];
    sum *= a.unscale ? *a.unscale : 1.f;
    a.grad[i] = sum;
    grad += double(sum) * double(sum);
    data += double(a.data[i]) * double(a.data[i]);
  }
  grad = block_sum<kThreads>(grad), data = block_sum<kThreads>(data);
  if (threadIdx.x == 0) a.partial[2 * blockIdx.x] = grad, a.partial[2 * blockIdx.x + 1] = data;
}

// one block; a thread adds the chunks of a tensor, one after another
__global__ void clip(LaPropArgs a) {
  wait_for_earlier();
  double whole = 0;
  for (int64_t c = threadIdx.x; c < a.chunk_count; c += kThreads) {
    const int64_t tensor = a.chunks[c].tensor;
    if (c > 0 && a.chunks[c - 1].tensor == tensor) continue;
    double grad = 0, data = 0;
    for (int64_t i = c; i < a.chunk_count && a.chunks[i].tensor == tensor; ++i)
      grad += a.partial[2 * i], data += a.partial[2 * i + 1];
    a.factor[tensor] = laprop_factor(a, grad, data);
    whole += grad;
  }
  whole = block_sum<kThreads>(whole);
  if (threadIdx.x == 0) laprop_begin_step(a, whole);
}

// a block a chunk
__global__ void step(LaPropArgs a) {
  wait_for_earlier();
  if (a.step->apply == 0) return;
  const LaPropChunk chunk = a.chunks[blockIdx.x];
  const float factor = a.factor[chunk.tensor], rate = *a.lr / a.step->unbiased1;
  const float share1 = float(1 - a.beta1), share2 = float(1 - a.beta2);
  const float unbias2 = 1.f / a.step->unbiased2;
  for (int64_t i = chunk.begin + threadIdx.x; i < chunk.begin + chunk.count; i += kThreads) {
    const float g = a.grad[i] * factor;
    const float v = a.squares[i] + share2 * (g * g - a.squares[i]);
    const float size = sqrtf(v * unbias2) + float(a.eps);
    const float m = a.momentum[i] + share1 * (g / size - a.momentum[i]);
    a.grad[i] = g, a.squares[i] = v, a.momentum[i] = m;
    a.data[i] -= rate * m;
  }
}

LaunchShape block_each(const LaPropArgs& a) {
  return {.grid = {a.chunk_count}, .block = {kThreads}};
}

}  // namespace

int laprop_reduce_cuda(const LaPropArgs& args, void* stream) {
  return launch_kernel(reduce, block_each(args), stream, args);
}
int laprop_clip_cuda(const LaPropArgs& args, void* stream) {
  return launch_kernel(clip, {.grid = {1}, .block = {kThreads}}, stream, args);
}
int laprop_step_cuda(const LaPropArgs& args, void* stream) {
  return launch_kernel(step, block_each(args), stream, args);
}

}  // namespace maglev
