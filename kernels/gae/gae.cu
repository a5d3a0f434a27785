#include "base/device/launch.cuh"
#include "kernels/gae/gae.h"

namespace maglev {
namespace {

__global__ void gae_columns(GaeArgs args) {
  wait_for_earlier();
  int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n < args.N) gae_column(args, n);
}

}  // namespace

int gae_cuda(const GaeArgs& args, void* stream) {
  constexpr int threads = 128;
  return launch_kernel(gae_columns, thread_each(args.N, threads), stream, args);
}

}  // namespace maglev
