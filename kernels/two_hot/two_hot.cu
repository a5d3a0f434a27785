#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/two_hot/two_hot.h"

namespace maglev {
namespace {

constexpr int kWarp = 32, kRowsPerBlock = 4;

// one warp a row
__global__ void loss_rows(TwoHotRows args) {
  wait_for_earlier();
  const int64_t row = int64_t(blockIdx.x) * kRowsPerBlock + threadIdx.y;
  if (row >= args.rows) return;
  const int64_t bins = args.bins.count;
  const float* logits = args.logits + row * bins;
  const float where = two_hot_position(args.bins, args.target[row % args.cycle]);
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
  const float weight = args.weight_of(row);
  for (int64_t k = threadIdx.x; k < bins; k += kWarp)
    args.d_logits[row * bins + k] =
        weight * (expf(logits[k] - largest) / total - fmaxf(1.f - fabsf(where - float(k)), 0.f));
}

// likewise; with m the bins' mean, a value is symexp(m) and its slope exp(|m|)
__global__ void value_rows(TwoHotValueRows args) {
  wait_for_earlier();
  const int64_t row = int64_t(blockIdx.x) * kRowsPerBlock + threadIdx.y;
  if (row >= args.rows) return;
  const int64_t bins = args.bins.count;
  const float* logits = args.logits + row * bins;
  const float width = args.bins.width();
  float largest = -INFINITY;
  for (int64_t k = threadIdx.x; k < bins; k += kWarp) largest = fmaxf(largest, logits[k]);
  largest = warp_max(largest);
  float total = 0, weighted = 0;
  for (int64_t k = threadIdx.x; k < bins; k += kWarp) {
    const float e = expf(logits[k] - largest);
    total += e;
    weighted += e * (args.bins.low + float(k) * width);
  }
  total = warp_sum(total);
  const float mean = warp_sum(weighted) / total, slope = expf(fabsf(mean));
  if (args.value && threadIdx.x == 0) args.value[row] = copysignf(slope - 1.f, mean);
  if (!args.d_value) return;
  const float back = args.scale * args.d_value[row % args.cycle] * slope / total;
  for (int64_t k = threadIdx.x; k < bins; k += kWarp)
    args.d_logits[row * bins + k] =
        back * expf(logits[k] - largest) * (args.bins.low + float(k) * width - mean);
}

LaunchShape warp_a_row(int64_t rows) {
  return {.grid = {blocks_of(rows, kRowsPerBlock)}, .block = {kWarp, kRowsPerBlock}};
}

}  // namespace

int two_hot_loss_cuda(const TwoHotRows& args, void* stream) {
  return launch_kernel(loss_rows, warp_a_row(args.rows), stream, args);
}

int two_hot_value_cuda(const TwoHotValueRows& args, void* stream) {
  return launch_kernel(value_rows, warp_a_row(args.rows), stream, args);
}

}  // namespace maglev
