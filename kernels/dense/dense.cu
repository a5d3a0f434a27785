#include <algorithm>

#include "base/device/launch.cuh"
#include "kernels/dense/end.cuh"

namespace maglev {
namespace {

constexpr int kWarps = 4;

// a warp takes a row. A plan is a chain of such launches over few rows, whose time is what they wait
// for: rows are found without a division
template <class T, int kGroups>
__global__ void end_rows(DenseEndRows a) {
  wait_for_earlier();
  EndRow r{.env = blockIdx.z,
           .net = blockIdx.y,
           .row = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads};
  if (r.row >= a.rows) return;
  // mostly one: a grid has no more than kMostGridSide of them
  for (; r.env < a.envs; r.env += gridDim.z) {
    float value[kGroups][kEndGroup];
    ended_row<T, kGroups>(a, r, value);
    T* y = static_cast<T*>(a.y) + r.place(a.to);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int64_t f = end_feature(g);
      if (f >= a.features) break;
      store_group(y + f, value[g]);
      if (a.exact) store_group(a.exact + r.dense(a) + f, value[g]);
    }
  }
}

template <class T>
int launch(const DenseEndRows& a, void* stream) {
  const LaunchShape shape{
      .grid = {blocks_of(a.rows, kWarps), a.nets, std::min(a.envs, kMostGridSide)},
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
