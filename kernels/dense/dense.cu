#include "base/device/launch.cuh"
#include "kernels/dense/end.cuh"

namespace maglev {
namespace {

constexpr int kWarps = 4;

__device__ float mish(float x) {
  const float w = expf(fminf(x, 20.f)), n = w * (w + 2.f);
  return x * (n / (n + 2.f));
}

// a warp takes a row
template <class T, int kGroups>
__global__ void end_rows(DenseEndRows a) {
  const int64_t i = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (i >= a.envs * a.nets * a.rows) return;
  const EndRow r{.env = i / a.rows / a.nets, .net = i / a.rows % a.nets, .row = i % a.rows};
  T* y = static_cast<T*>(a.y) + r.place(a.to);
  const float *gain = a.gain + r.shared(a.gain_steps), *shift = a.shift + r.shared(a.gain_steps);
  float value[kGroups][kEndGroup];
  normalised_row<T, kGroups>(a, r, value);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t f = end_feature(g);
    if (f >= a.features) break;
    for (int k = 0; k < kEndGroup; ++k) {
      value[g][k] = value[g][k] * gain[f + k] + shift[f + k];
      if (a.end == DenseEnd::mish) value[g][k] = mish(value[g][k]);
    }
    if (a.end == DenseEnd::simnorm) softmax_group(value[g]);
    store_group(y + f, value[g]);
    if (a.exact) store_group(a.exact + r.dense(a) + f, value[g]);
  }
}

template <class T>
int launch(const DenseEndRows& a, void* stream) {
  const LaunchShape shape = warp_each(a.envs * a.nets * a.rows, kWarps);
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
