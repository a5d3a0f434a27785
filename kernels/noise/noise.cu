#include "base/device/launch.cuh"
#include "kernels/noise/noise.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

template <bool kNormal>
__global__ void fill_noise(NoiseFill fill, float* out) {
  wait_for_earlier();
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= fill.rows * fill.count) return;
  const uint64_t stream = stream_of(fill, e / fill.count);
  const uint64_t index = first_index(fill) + uint64_t(e % fill.count);
  out[e] = kNormal ? normal(fill.seed, stream, index) : uniform(fill.seed, stream, index);
}

}  // namespace

int noise_uniform_cuda(const NoiseFill& fill, float* out, void* stream) {
  return launch_kernel(fill_noise<false>, thread_each(fill.rows * fill.count, kThreads), stream,
                       fill, out);
}

int noise_normal_cuda(const NoiseFill& fill, float* out, void* stream) {
  return launch_kernel(fill_noise<true>, thread_each(fill.rows * fill.count, kThreads), stream,
                       fill, out);
}

}  // namespace maglev
