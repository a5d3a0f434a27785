#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/norm_silu/norm_silu.h"

namespace maglev {
namespace {

constexpr int kWarps = 4;

__device__ int64_t row_of_warp() {
  return int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
}

// a warp a row
__global__ void forward_rows(NormSiluArgs a) {
  wait_for_earlier();
  const int64_t r = row_of_warp(), count = a.blocks * a.width;
  if (r >= a.rows) return;
  const int64_t first = threadIdx.x % kWarpThreads, group = r % a.groups * count;
  float squares = 0;
  for (int64_t j = first; j < count; j += kWarpThreads) {
    const int64_t g = j / a.width, i = j % a.width;
    const float v = a.x.block(r, g)[i] + a.bias[group + j];
    a.x.block(r, g)[i] = v;
    squares += v * v;
  }
  const float inverse = 1.f / sqrtf(warp_sum(squares) / float(count) + a.eps);
  if (first == 0) a.inverse[r] = inverse;
  for (int64_t j = first; j < count; j += kWarpThreads) {
    const int64_t g = j / a.width, i = j % a.width;
    const float y = a.x.block(r, g)[i] * inverse * a.scale[group + j];
    a.out.block(r, g)[i] = y / (1.f + expf(-y));
  }
}

__global__ void backward_rows(NormSiluBack a) {
  wait_for_earlier();
  const int64_t r = row_of_warp(), count = a.blocks * a.width;
  if (r >= a.rows) return;
  const int64_t first = threadIdx.x % kWarpThreads, group = r % a.groups * count;
  const float inverse = a.inverse[r];
  float dot = 0;
  for (int64_t j = first; j < count; j += kWarpThreads) {
    const int64_t g = j / a.width, i = j % a.width;
    const float v = a.pre.block(r, g)[i], normed = v * inverse, y = normed * a.scale[group + j];
    const float s = 1.f / (1.f + expf(-y));
    const float dy = a.d_out.block(r, g)[i] * s * (y * (1.f - s) + 1.f);
    a.d_scale.block(r, g)[i] = dy * normed;
    a.d_pre.block(r, g)[i] = dy * a.scale[group + j];
    dot += dy * a.scale[group + j] * v;
  }
  const float mean = inverse * inverse * warp_sum(dot) / float(count);
  for (int64_t j = first; j < count; j += kWarpThreads) {
    const int64_t g = j / a.width, i = j % a.width;
    float* d_pre = a.d_pre.block(r, g) + i;
    *d_pre = inverse * (*d_pre - a.pre.block(r, g)[i] * mean);
  }
}

}  // namespace

int norm_silu_cuda(const NormSiluArgs& args, void* stream) {
  return launch_kernel(forward_rows, warp_each(args.rows, kWarps), stream, args);
}

int norm_silu_back_cuda(const NormSiluBack& args, void* stream) {
  return launch_kernel(backward_rows, warp_each(args.rows, kWarps), stream, args);
}

}  // namespace maglev
