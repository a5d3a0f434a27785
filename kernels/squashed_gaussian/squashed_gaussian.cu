#include "base/device/launch.cuh"
#include "kernels/squashed_gaussian/squashed_gaussian.h"

namespace maglev {
namespace {

constexpr int kThreads = 128;

__device__ int64_t row_of_thread() { return int64_t(blockIdx.x) * kThreads + threadIdx.x; }

// a thread a row: actions are few
__global__ void draw_rows(SquashedGaussianRows args) {
  wait_for_earlier();
  if (row_of_thread() < args.rows) squashed_row(args, row_of_thread());
}

__global__ void gradient_rows(SquashedGaussianRowsGrad args) {
  wait_for_earlier();
  if (row_of_thread() < args.rows) squashed_row_grad(args, row_of_thread());
}

}  // namespace

int squashed_gaussian_rows_cuda(const SquashedGaussianRows& args, void* stream) {
  return launch_kernel(draw_rows, thread_each(args.rows, kThreads), stream, args);
}

int squashed_gaussian_rows_grad_cuda(const SquashedGaussianRowsGrad& args, void* stream) {
  return launch_kernel(gradient_rows, thread_each(args.rows, kThreads), stream, args);
}

}  // namespace maglev
