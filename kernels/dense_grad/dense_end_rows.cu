#include "base/device/launch.cuh"
#include "kernels/dense/end.cuh"
#include "kernels/dense_grad/dense_grad.h"

namespace maglev {
namespace {

constexpr int kGradWarps = 8;
// a block of the fold takes 32 columns, a warp every kSlices-th part of them
constexpr int kColumns = 32, kSlices = 16;

// as kernels/dense_grad has it: with w = e^x and n = w (w + 2), tanh(softplus(x)) is n / (n + 2)
__device__ float mish_slope(float x) {
  const float w = expf(fminf(x, 20.f)), n = w * (w + 2.f), inverse = 1.f / (n + 2.f);
  return x * (4.f * w * (w + 1.f) * inverse * inverse) + n * inverse;
}

/// What a lane sums over its rows.
template <int kGroups>
struct Sums {
  float start[kGroups][kEndGroup] = {}, gain[kGroups][kEndGroup] = {},
        shift[kGroups][kEndGroup] = {};
};

// from dy of one group to d loss / d (gain xhat + shift)
__device__ void through_end(const DenseEndRows& a, const float (&xhat)[kEndGroup],
                            const float* gain, const float* shift, float (&d)[kEndGroup]) {
  float u[kEndGroup], common = 0.f;
  for (int k = 0; k < kEndGroup; ++k) u[k] = xhat[k] * gain[k] + shift[k];
  if (a.end == DenseEnd::mish) {
    for (int k = 0; k < kEndGroup; ++k) d[k] *= mish_slope(u[k]);
    return;
  }
  softmax_group(u);
  for (int k = 0; k < kEndGroup; ++k) common += u[k] * d[k];
  for (int k = 0; k < kEndGroup; ++k) d[k] = u[k] * (d[k] - common);
}

template <class T, int kGroups>
__device__ void row_back(const DenseEndRowsGrad& g, const EndRow& r, Sums<kGroups>& sums) {
  const DenseEndRows& a = g.of;
  const float *gain = a.gain + r.shared(a.gain_steps), *shift = a.shift + r.shared(a.gain_steps);
  const float* uniform = a.uniform ? a.uniform + r.dense(a) : nullptr;
  const T* dy = static_cast<const T*>(g.dy) + r.place(g.from);
  T* dx = static_cast<T*>(g.dx) + r.place(g.to);
  float xhat[kGroups][kEndGroup], d[kGroups][kEndGroup], sum = 0.f, sum_xhat = 0.f;
  const float rstd = normalised_row<T, kGroups>(a, r, xhat);
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const int64_t f = end_feature(i);
    if (f >= a.features) break;
    load_group(dy + f, d[i]);
    through_end(a, xhat[i], gain + f, shift + f, d[i]);
    for (int k = 0; k < kEndGroup; ++k) {
      sums.gain[i][k] += d[i][k] * xhat[i][k];
      sums.shift[i][k] += d[i][k];
      d[i][k] *= gain[f + k];
      sum += d[i][k];
      sum_xhat += d[i][k] * xhat[i][k];
    }
  }
  const float mean = warp_sum(sum) / float(a.features);
  const float mean_xhat = warp_sum(sum_xhat) / float(a.features);
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    const int64_t f = end_feature(i);
    if (f >= a.features) break;
    for (int k = 0; k < kEndGroup; ++k) {
      d[i][k] = (d[i][k] - mean - xhat[i][k] * mean_xhat) * rstd;
      if (uniform) d[i][k] *= dropout_factor(uniform[f + k], a.share);
      sums.start[i][k] += d[i][k];
    }
    store_group(dx + f, d[i]);
  }
}

// a block takes kEndGradRows rows of a network, a warp every kGradWarps-th; then one warp after
// another adds what its rows have to the part
template <class T, int kGroups>
__global__ void end_grad_rows(DenseEndRowsGrad g) {
  wait_for_earlier();
  const DenseEndRows& a = g.of;
  const int warp = int(threadIdx.x) / kWarpThreads;
  const int64_t net = blockIdx.y, first = int64_t(blockIdx.x) * kEndGradRows;
  Sums<kGroups> sums;
  for (int64_t row = first + warp; row < min(first + kEndGradRows, a.rows); row += kGradWarps)
    row_back<T, kGroups>(g, {.env = 0, .net = net, .row = row}, sums);
  if (!g.parts) return;
  float* part = static_cast<float*>(dynamic_shared());
  for (int w = 0; w < kGradWarps; ++w) {
    if (warp == w)
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const int64_t f = end_feature(i);
        if (f >= a.features) break;
        for (int k = 0; k < kEndGroup; ++k) {
          const float mine[3] = {sums.start[i][k], sums.gain[i][k], sums.shift[i][k]};
          for (int j = 0; j < 3; ++j) {
            float& all = part[j * a.features + f + k];
            all = w == 0 ? mine[j] : all + mine[j];
          }
        }
      }
    __syncthreads();
  }
  float* to = g.parts + (int64_t(blockIdx.x) * a.nets + net) * 3 * a.features;
  for (int64_t i = threadIdx.x; i < 3 * a.features; i += kGradWarps * kWarpThreads) to[i] = part[i];
}

__global__ void fold_parts(DenseEndFold a) {
  wait_for_earlier();
  __shared__ float sums[kSlices][kColumns];
  const int64_t columns = a.nets * 3 * a.features;
  const int64_t c = int64_t(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0.f;
  if (c < columns)
    for (int64_t p = threadIdx.y; p < a.count; p += kSlices) sum += a.parts[p * columns + c];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= columns) return;
  for (int s = 1; s < kSlices; ++s) sum += sums[s][threadIdx.x];
  *folded_place(a, c) += sum;
}

template <class T>
int launch(const DenseEndRowsGrad& g, void* stream) {
  const DenseEndRows& a = g.of;
  if (a.envs != 1) return int(cudaErrorInvalidValue);
  const LaunchShape shape{.grid = {end_grad_parts(a.rows), a.nets},
                          .block = {kGradWarps * kWarpThreads},
                          .shared_bytes = g.parts ? 3 * a.features * int64_t(sizeof(float)) : 0};
  if (a.features <= end_features(2)) return launch_kernel(end_grad_rows<T, 2>, shape, stream, g);
  if (a.features <= end_features(4)) return launch_kernel(end_grad_rows<T, 4>, shape, stream, g);
  if (a.features <= end_features(16)) return launch_kernel(end_grad_rows<T, 16>, shape, stream, g);
  return int(cudaErrorInvalidValue);
}

}  // namespace

int dense_end_rows_grad_cuda(const DenseEndRowsGrad& args, void* stream) {
  return args.of.bf16 ? launch<uint16_t>(args, stream) : launch<float>(args, stream);
}

int dense_end_fold_cuda(const DenseEndFold& args, void* stream) {
  const LaunchShape shape{.grid = {blocks_of(args.nets * 3 * args.features, kColumns)},
                          .block = {kColumns, kSlices}};
  return launch_kernel(fold_parts, shape, stream, args);
}

}  // namespace maglev
