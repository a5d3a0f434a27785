#include "base/device/launch.cuh"
#include "kernels/dense/end.cuh"

namespace maglev {
namespace {

constexpr int kWarps = 4;

template <bool kFast>
__device__ float mish(float x) {
  const float w = exponential<kFast>(fminf(x, 20.f)), n = w * (w + 2.f);
  return x * quotient<kFast>(n, n + 2.f);
}

// a warp takes a row. A plan is a chain of such launches over few rows, whose time is what they wait
// for: rows are found without a division, and what memory gives is asked for at once, where few
// groups leave registers for it
template <class T, int kGroups>
__global__ void end_rows(DenseEndRows a) {
  // large batches in bf16 would else wait for arithmetic, not for memory
  constexpr bool kFast = sizeof(T) == 2;
  const EndRow r{.env = blockIdx.z,
                 .net = blockIdx.y,
                 .row = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads};
  if (r.row >= a.rows) return;
  constexpr bool kAhead = kGroups <= 2;
  constexpr int kHeld = kAhead ? kGroups : 1;
  T* y = static_cast<T*>(a.y) + r.place(a.to);
  const float *gain = a.gain + r.shared(a.gain_steps), *shift = a.shift + r.shared(a.gain_steps);
  const bool aligned = is_aligned(gain) && is_aligned(shift);
  float value[kGroups][kEndGroup], gains[kHeld][kEndGroup], shifts[kHeld][kEndGroup];
  const auto fetch = [&](int g, int to) {
    const int64_t f = end_feature(g);
    if (f >= a.features) return;
    load_group(gain + f, aligned, gains[to]), load_group(shift + f, aligned, shifts[to]);
  };
  if (kAhead)
#pragma unroll
    for (int g = 0; g < kGroups; ++g) fetch(g, g);
  normalised_row<T, kGroups>(a, r, value);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t f = end_feature(g);
    if (f >= a.features) break;
    const int held = kAhead ? g : 0;
    if (!kAhead) fetch(g, 0);
    for (int k = 0; k < kEndGroup; ++k) {
      value[g][k] = value[g][k] * gains[held][k] + shifts[held][k];
      if (a.end == DenseEnd::mish) value[g][k] = mish<kFast>(value[g][k]);
    }
    if (a.end == DenseEnd::simnorm) softmax_group<kFast>(value[g]);
    store_group(y + f, value[g]);
    if (a.exact) store_group(a.exact + r.dense(a) + f, value[g]);
  }
}

template <class T>
int launch(const DenseEndRows& a, void* stream) {
  const LaunchShape shape{.grid = {blocks_of(a.rows, kWarps), a.nets, a.envs},
                          .block = {kWarps * kWarpThreads}};
  if (a.features <= end_features(2)) return launch_kernel(end_rows<T, 2>, shape, stream, a);
  if (a.features <= end_features(4)) return launch_kernel(end_rows<T, 4>, shape, stream, a);
  if (a.features <= end_features(16)) return launch_kernel(end_rows<T, 16>, shape, stream, a);
  return int(cudaErrorInvalidValue);
}

}  // namespace

int dense_end_cuda(const DenseEndRows& args, void* stream) {
  return args.bf16 ? launch<uint16_t>(args, stream) : launch<float>(args, stream);
}

}  // namespace maglev
