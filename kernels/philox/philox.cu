#include "base/device/launch.cuh"
#include "kernels/philox/philox.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

__global__ void fill_uniform(PhiloxFill fill, float* out) {
  wait_for_earlier();
  int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= fill.rows * fill.width) return;
  int64_t i = e / fill.width, j = e % fill.width;
  out[e] = open_uniform(philox_row_block(fill, i, j / 4).word[j % 4]);
}

__global__ void fill_normal(PhiloxFill fill, float* out) {
  wait_for_earlier();
  int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= fill.rows * fill.width) return;
  int64_t i = e / fill.width, j = e % fill.width;
  PhiloxBlock block = philox_row_block(fill, i, j / 2);
  float radius = sqrtf(-2.f * logf(open_uniform(block.word[0])));
  float angle = 6.28318530717958648f * open_uniform(block.word[1]);
  out[e] = j % 2 == 0 ? radius * cosf(angle) : radius * sinf(angle);
}

__global__ void fill_permutation(PermutationKey key, int64_t first, int64_t count, int64_t* out) {
  wait_for_earlier();
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = int64_t(permutation_of(key)(uint64_t(first + i)));
}

}  // namespace

int philox_uniform_cuda(const PhiloxFill& fill, float* out, void* stream) {
  return launch_kernel(fill_uniform, thread_each(fill.rows * fill.width, kThreads), stream, fill,
                       out);
}

int philox_normal_cuda(const PhiloxFill& fill, float* out, void* stream) {
  return launch_kernel(fill_normal, thread_each(fill.rows * fill.width, kThreads), stream, fill,
                       out);
}

int permutation_cuda(const PermutationKey& key, int64_t first, int64_t count, int64_t* out,
                     void* stream) {
  return launch_kernel(fill_permutation, thread_each(count, kThreads), stream, key, first, count,
                       out);
}

}  // namespace maglev
