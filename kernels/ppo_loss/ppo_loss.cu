#include "base/device/block.cuh"
#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/ppo_loss/ppo_loss.cuh"

namespace maglev {
namespace {

constexpr int kThreads = int(kPpoDeviceBlock);

// the sum over a block's rows
__device__ void sum_of_block(double x, double* out) {
  x = block_sum<kThreads>(x);
  if (threadIdx.x == 0) *out = x;
}

__global__ void loss_rows(PpoLossArgs args, DevicePolicy device, double* partial) {
  wait_for_earlier();
  const PolicyPanel& p = args.policy;
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t at = row < p.rows ? args.index[row] : 0;
  const bool counts = row < p.rows && args.valid[at] != 0.f;
  double* sums = partial + blockIdx.x * (kPpoTotal + p.dims);
  RowLoss loss{};
  if (counts) loss = row_loss(args, device, *args.scalars, row, at);
  if (row < p.stride) args.d_value[row] = loss.d_value;
  for (int f = 0; f < kPpoTotal; ++f) sum_of_block(double(loss.figure[f]), sums + f);

  for (int64_t i = 0; p.head_count == 0 && i < p.dims; ++i) {
    const double d_log_std =
        row < p.stride ? gaussian_gradient(args, device, row, at, counts, loss, i) : 0.;
    sum_of_block(d_log_std, sums + kPpoTotal + i);
  }
  if (row < p.stride) heads_gradient(args, device, row, at, counts, loss);
}

// one block: blocks' sums, a warp a figure or dimension
__global__ void add_blocks(PpoLossArgs args, const double* partial, int64_t blocks) {
  wait_for_earlier();
  const PolicyPanel& p = args.policy;
  // dimensions have sums where actions are continuous
  const int64_t width = kPpoTotal + p.dims, used = p.head_count > 0 ? int64_t(kPpoTotal) : width;
  __shared__ double figure[kPpoTotal];
  const int64_t lane = threadIdx.x % 32;
  for (int64_t c = threadIdx.x / 32; c < used; c += kThreads / 32) {
    double sum = 0;
    for (int64_t b = lane; b < blocks; b += 32) sum += partial[b * width + c];
    sum = warp_sum(sum);
    if (lane != 0) continue;
    if (c < kPpoTotal) figure[c] = sum, args.figures[c] += sum;
    else args.d_log_std[c - kPpoTotal] += float(sum);
  }
  __syncthreads();
  if (threadIdx.x == 0)
    args.figures[kPpoTotal] += figure[kPpoPolicy] +
                               double(args.settings.value_coef) * figure[kPpoValue] -
                               double(args.scalars->entropy_coef) * figure[kPpoEntropy];
}

}  // namespace

int ppo_loss_cuda(const PpoLossArgs& args, double* partial, void* stream) {
  if (args.policy.head_count > kMostDeviceHeads) return int(cudaErrorInvalidValue);
  const int64_t rows = args.policy.rows, blocks = blocks_of(rows, kThreads);
  if (const int error = launch_kernel(loss_rows, {.grid = {blocks}, .block = {kThreads}}, stream,
                                      args, device_policy(args.policy), partial))
    return error;
  return launch_kernel(add_blocks, {.block = {kThreads}}, stream, args, partial, blocks);
}

}  // namespace maglev
