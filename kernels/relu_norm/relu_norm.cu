#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/relu_norm/relu_norm.h"

namespace maglev {
namespace {

constexpr int kWarps = 4;

// a warp a row
__global__ void forward_rows(ReluNormArgs a) {
  wait_for_earlier();
  const int64_t r = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (r >= a.rows) return;
  const int64_t first = threadIdx.x % kWarpThreads;
  float* z = a.z + r * a.width;
  float sum = 0, squares = 0;
  for (int64_t i = first; i < a.width; i += kWarpThreads) {
    // not fmaxf, which would make 0 of what is not a number
    const float v = z[i] + a.bias[i];
    z[i] = v < 0.f ? 0.f : v;
    sum += z[i];
  }
  const float mean = warp_sum(sum) / float(a.width);
  for (int64_t i = first; i < a.width; i += kWarpThreads) squares += (z[i] - mean) * (z[i] - mean);
  const float inverse = 1.f / sqrtf(warp_sum(squares) / float(a.width) + a.eps);
  if (first == 0) a.mean[r] = mean, a.inverse[r] = inverse;
  for (int64_t i = first; i < a.width; i += kWarpThreads) {
    const float y = (z[i] - mean) * inverse * a.gain[i] + a.shift[i];
    a.out[r * a.width + i] = a.past ? y + a.past[r * a.width + i] : y;
  }
}

// a warp a row
__global__ void backward_rows(ReluNormBack a) {
  wait_for_earlier();
  const int64_t r = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (r >= a.rows) return;
  const int64_t first = threadIdx.x % kWarpThreads;
  const float *act = a.a + r * a.width, *g = a.d_out + r * a.width;
  const float mean = a.mean[r], inverse = a.inverse[r];
  float sum = 0, dot = 0;
  for (int64_t i = first; i < a.width; i += kWarpThreads) {
    const float d = g[i] * a.gain[i];
    sum += d, dot += d * (act[i] - mean) * inverse;
  }
  sum = warp_sum(sum) / float(a.width), dot = warp_sum(dot) / float(a.width);
  for (int64_t i = first; i < a.width; i += kWarpThreads) {
    const float normed = (act[i] - mean) * inverse;
    a.d_z[r * a.width + i] = act[i] > 0 ? inverse * (g[i] * a.gain[i] - sum - normed * dot) : 0.f;
  }
}

// a thread a chunk and column, rows in order
__global__ void sum_chunks(ReluNormBack a) {
  wait_for_earlier();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, chunk = blockIdx.y;
  if (i >= a.width) return;
  const int64_t first = chunk * kReluNormChunk;
  const int64_t end = first + kReluNormChunk < a.rows ? first + kReluNormChunk : a.rows;
  float d_gain = 0, d_shift = 0, d_bias = 0;
  for (int64_t r = first; r < end; ++r) {
    const float g = a.d_out[r * a.width + i];
    d_gain += g * (a.a[r * a.width + i] - a.mean[r]) * a.inverse[r];
    d_shift += g;
    d_bias += a.d_z[r * a.width + i];
  }
  float* sums = a.sums + chunk * 3 * a.width + i;
  sums[0] = d_gain, sums[a.width] = d_shift, sums[2 * a.width] = d_bias;
}

}  // namespace

int relu_norm_cuda(const ReluNormArgs& args, void* stream) {
  return launch_kernel(forward_rows, warp_each(args.rows, kWarps), stream, args);
}

int relu_norm_back_cuda(const ReluNormBack& args, void* stream) {
  if (const int error = launch_kernel(backward_rows, warp_each(args.rows, kWarps), stream, args))
    return error;
  constexpr int64_t kThreads = 128;
  // as many chunks at once as a grid has
  for (int64_t chunk = 0; chunk < relu_norm_chunks(args.rows); chunk += kMostGridSide) {
    ReluNormBack part = args;
    const int64_t row = chunk * kReluNormChunk;
    part.rows -= row, part.a += row * args.width, part.d_out += row * args.width;
    part.d_z += row * args.width, part.mean += row, part.inverse += row;
    part.sums += chunk * 3 * args.width;
    const int64_t left = relu_norm_chunks(part.rows);
    const LaunchShape shape{
        .grid = {blocks_of(args.width, kThreads), left < kMostGridSide ? left : kMostGridSide},
        .block = {kThreads}};
    if (const int error = launch_kernel(sum_chunks, shape, stream, part)) return error;
  }
  return 0;
}

}  // namespace maglev
