#include <cuda_runtime.h>

#include "kernels/philox/philox.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

__global__ void fill_uniform(PhiloxFill fill, float* out) {
  int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= fill.rows * fill.width) return;
  int64_t i = e / fill.width, j = e % fill.width;
  out[e] = open_uniform(philox_row_block(fill, i, j / 4).word[j % 4]);
}

__global__ void fill_normal(PhiloxFill fill, float* out) {
  int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= fill.rows * fill.width) return;
  int64_t i = e / fill.width, j = e % fill.width;
  PhiloxBlock block = philox_row_block(fill, i, j / 2);
  float radius = sqrtf(-2.f * logf(open_uniform(block.word[0])));
  float angle = 6.28318530717958648f * open_uniform(block.word[1]);
  out[e] = j % 2 == 0 ? radius * cosf(angle) : radius * sinf(angle);
}

__global__ void fill_permutation(PermutationKey key, int64_t first, int64_t count, int64_t* out) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = int64_t(permutation_of(key)(uint64_t(first + i)));
}

unsigned blocks_of(const PhiloxFill& fill) {
  return unsigned((fill.rows * fill.width + kThreads - 1) / kThreads);
}

}  // namespace

int philox_uniform_cuda(const PhiloxFill& fill, float* out, void* stream) {
  fill_uniform<<<blocks_of(fill), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(fill, out);
  return int(cudaGetLastError());
}

int philox_normal_cuda(const PhiloxFill& fill, float* out, void* stream) {
  fill_normal<<<blocks_of(fill), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(fill, out);
  return int(cudaGetLastError());
}

int permutation_cuda(const PermutationKey& key, int64_t first, int64_t count, int64_t* out,
                     void* stream) {
  unsigned blocks = unsigned((count + kThreads - 1) / kThreads);
  fill_permutation<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(key, first, count,
                                                                               out);
  return int(cudaGetLastError());
}

}  // namespace maglev
