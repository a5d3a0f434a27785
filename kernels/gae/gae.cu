#include <cuda_runtime.h>

#include "kernels/gae/gae.h"

namespace maglev {
namespace {

__global__ void gae_columns(GaeArgs args) {
  int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n < args.N) gae_column(args, n);
}

}  // namespace

int gae_cuda(const GaeArgs& args, void* stream) {
  constexpr int threads = 128;
  gae_columns<<<unsigned((args.N + threads - 1) / threads), threads, 0,
                static_cast<cudaStream_t>(stream)>>>(args);
  return int(cudaGetLastError());
}

}  // namespace maglev
