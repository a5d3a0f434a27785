#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/two_hot/two_hot.h"

namespace maglev {
namespace {

constexpr int kWarp = 32, kRowsPerBlock = 4;

// one warp a row
__global__ void loss_rows(TwoHotRows args) {
  const int64_t row = int64_t(blockIdx.x) * kRowsPerBlock + threadIdx.y;
  if (row >= args.rows) return;
  const int64_t bins = args.bins.count;
  const float* logits = args.logits + row * bins;
  const float where = two_hot_position(args.bins, args.target[row]);
  float largest = -INFINITY;
  for (int64_t k = threadIdx.x; k < bins; k += kWarp) largest = fmaxf(largest, logits[k]);
  largest = warp_max(largest);
  float total = 0, coded = 0;
  for (int64_t k = threadIdx.x; k < bins; k += kWarp) {
    total += expf(logits[k] - largest);
    coded += fmaxf(1.f - fabsf(where - float(k)), 0.f) * (logits[k] - largest);
  }
  total = warp_sum(total), coded = warp_sum(coded);
  if (threadIdx.x == 0) args.loss[row] = logf(total) - coded;
  if (!args.d_logits) return;
  for (int64_t k = threadIdx.x; k < bins; k += kWarp)
    args.d_logits[row * bins + k] =
        expf(logits[k] - largest) / total - fmaxf(1.f - fabsf(where - float(k)), 0.f);
}

}  // namespace

int two_hot_loss_cuda(const TwoHotRows& args, void* stream) {
  const LaunchShape warp_each{.grid = {blocks_of(args.rows, kRowsPerBlock)},
                              .block = {kWarp, kRowsPerBlock}};
  return launch_kernel(loss_rows, warp_each, stream, args);
}

}  // namespace maglev
