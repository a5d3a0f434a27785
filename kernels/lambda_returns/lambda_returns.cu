#include "base/device/launch.cuh"
#include "kernels/lambda_returns/lambda_returns.h"

namespace maglev {
namespace {

__global__ void columns(LambdaReturnArgs args) {
  wait_for_earlier();
  const int64_t n = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n < args.N) lambda_return_column(args, n);
}

}  // namespace

int lambda_returns_cuda(const LambdaReturnArgs& args, void* stream) {
  constexpr int kThreads = 64;
  return launch_kernel(columns, thread_each(args.N, kThreads), stream, args);
}

}  // namespace maglev
