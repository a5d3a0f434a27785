#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/symexp_bins/symexp_bins.h"

namespace maglev {
namespace {

constexpr int kWarps = 4;

// of a row, known to all threads of its warp
struct Softmax {
  float largest, total;

  __device__ Softmax(const float* logits, const float* bias, int64_t count) {
    const int64_t first = threadIdx.x % kWarpThreads;
    float most = -INFINITY, sum = 0;
    for (int64_t k = first; k < count; k += kWarpThreads) most = fmaxf(most, logits[k] + bias[k]);
    largest = warp_max(most);
    for (int64_t k = first; k < count; k += kWarpThreads)
      sum += expf(logits[k] + bias[k] - largest);
    total = warp_sum(sum);
  }
};

// a warp a row
__global__ void mean_rows(SymexpMean a) {
  wait_for_earlier();
  const int64_t r = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (r >= a.rows) return;
  const int64_t count = a.bins.count, half = count / 2;
  const float* logits = a.logits + r * count;
  const Softmax of(logits, a.bias, count);
  float sum = 0;
  for (int64_t i = threadIdx.x % kWarpThreads; i < half; i += kWarpThreads) {
    const int64_t above = half + 1 + i, below = half - 1 - i;
    sum += (expf(logits[above] + a.bias[above] - of.largest) -
            expf(logits[below] + a.bias[below] - of.largest)) *
           a.bins.value[above];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarpThreads == 0) a.mean[r] = sum / of.total;
}

__global__ void loss_rows(SymexpLoss a) {
  wait_for_earlier();
  const int64_t r = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (r >= a.rows) return;
  const int64_t count = a.bins.count, first = threadIdx.x % kWarpThreads;
  const float* logits = a.logits + r * count;
  const Softmax of(logits, a.bias, count);
  const float weight = a.factor * (a.weight ? a.weight[r] : 1.f);
  const TwoBins one = bins_beside(a.bins, a.target[r]);
  TwoBins two{0, 0};
  if (a.second) two = bins_beside(a.bins, a.second[r]);
  const float second = a.second ? a.second_weight : 0.f;
  float coded = 0;
  for (int64_t k = first; k < count; k += kWarpThreads) {
    const float logit = logits[k] + a.bias[k];
    float code = 0;
    if (k == one.below) code += 1.f - one.share;
    if (k == one.below + 1) code += one.share;
    if (k == two.below) code += second * (1.f - two.share);
    if (k == two.below + 1) code += second * two.share;
    coded += code * (logit - of.largest);
    a.d_logits[r * count + k] =
        weight * ((1.f + second) * expf(logit - of.largest) / of.total - code);
  }
  coded = warp_sum(coded);
  if (first == 0) a.loss[r] = (1.f + second) * logf(of.total) - coded;
}

}  // namespace

int symexp_mean_cuda(const SymexpMean& args, void* stream) {
  return launch_kernel(mean_rows, warp_each(args.rows, kWarps), stream, args);
}
int symexp_loss_cuda(const SymexpLoss& args, void* stream) {
  return launch_kernel(loss_rows, warp_each(args.rows, kWarps), stream, args);
}

}  // namespace maglev
