#include <cuda_runtime.h>

#include "kernels/noise/noise.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

template <bool kNormal>
__global__ void fill_noise(NoiseFill fill, float* out) {
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= fill.rows * fill.count) return;
  const uint64_t stream = stream_of(fill, e / fill.count);
  const uint64_t index = first_index(fill) + uint64_t(e % fill.count);
  out[e] = kNormal ? normal(fill.seed, stream, index) : uniform(fill.seed, stream, index);
}

unsigned blocks_of(const NoiseFill& fill) {
  return unsigned((fill.rows * fill.count + kThreads - 1) / kThreads);
}

}  // namespace

int noise_uniform_cuda(const NoiseFill& fill, float* out, void* stream) {
  fill_noise<false><<<blocks_of(fill), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(fill, out);
  return int(cudaGetLastError());
}

int noise_normal_cuda(const NoiseFill& fill, float* out, void* stream) {
  fill_noise<true><<<blocks_of(fill), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(fill, out);
  return int(cudaGetLastError());
}

}  // namespace maglev
