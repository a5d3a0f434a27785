#include "base/device/launch.cuh"
#include "kernels/mlp/mlp.h"

namespace maglev {
namespace {

constexpr int kOutputs = 8;  // sums a thread keeps
constexpr int kTile = 16;    // weights a block's gradient tile has each way
constexpr int kChunk = 32;   // rows a tile reads at once

__device__ float activate(Activation activation, float z, float* slope) {
  switch (activation) {
    case Activation::tanh:
      return tanhf(z);
    case Activation::relu:
      return fmaxf(z, 0.f);
    case Activation::silu: {
      const float share = 1.f / (1.f + expf(-z));
      if (slope) *slope = share * (1.f + z * (1.f - share));
      return z * share;
    }
    default:
      return z;
  }
}

__device__ float slope_of(Activation activation, const float* y, const float* slope, int64_t at) {
  switch (activation) {
    case Activation::tanh:
      return 1.f - y[at] * y[at];
    case Activation::relu:
      return y[at] > 0.f ? 1.f : 0.f;
    case Activation::silu:
      return slope[at];
    default:
      return 1.f;
  }
}

// a thread is a row and kOutputs outputs of it: neighbours read x side by side and the same weights
__global__ void dense_forward(DenseLayer layer, const float* x, float* y, float* slope,
                              int64_t stride, int64_t rows) {
  const int64_t r = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = int64_t(blockIdx.y) * kOutputs;
  if (r >= rows) return;
  const int64_t count = layer.out - first < kOutputs ? layer.out - first : kOutputs;
  float sum[kOutputs];
  for (int i = 0; i < kOutputs; ++i) sum[i] = i < count ? layer.bias[first + i] : 0.f;
  for (int64_t k = 0; k < layer.in; ++k) {
    const float in = x[k * stride + r];
    for (int i = 0; i < kOutputs; ++i)
      if (i < count) sum[i] = fmaf(layer.weight[(first + i) * layer.in + k], in, sum[i]);
  }
  for (int i = 0; i < count; ++i) {
    const int64_t at = (first + i) * stride + r;
    y[at] = activate(layer.activation, sum[i], slope ? slope + at : nullptr);
  }
}

// dx[k] = slope(x[k]) * sum over o of W[o][k] dz[o]
__global__ void dense_input_grad(DenseLayer layer, const float* dz, Activation below,
                                 const float* x, const float* slope, float* dx, int64_t features,
                                 int64_t stride, int64_t rows) {
  const int64_t r = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t first = int64_t(blockIdx.y) * kOutputs;
  if (r >= rows) return;
  const int64_t count = features - first < kOutputs ? features - first : kOutputs;
  float sum[kOutputs] = {};
  for (int64_t o = 0; o < layer.out; ++o) {
    const float grad = dz[o * stride + r];
    for (int i = 0; i < kOutputs; ++i)
      if (i < count) sum[i] = fmaf(layer.weight[o * layer.in + first + i], grad, sum[i]);
  }
  for (int i = 0; i < count; ++i) {
    const int64_t at = (first + i) * stride + r;
    dx[at] = sum[i] * slope_of(below, x, slope, at);
  }
}

__global__ void multiply_slope(Activation activation, const float* y, const float* slope, float* dy,
                               int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) dy[i] *= slope_of(activation, y, slope, i);
}

// a block is a tile of weights and a slice of rows, which has a gradient lane of its own, so sums
// have one order
__global__ void dense_weight_grad(DenseLayer layer, DenseGrad grad, const float* x, const float* dz,
                                  int64_t stride, int64_t rows, int64_t lane_stride) {
  __shared__ float in[kTile][kChunk + 1], out[kTile][kChunk + 1];
  const int64_t first_k = int64_t(blockIdx.x) * kTile, first_o = int64_t(blockIdx.y) * kTile;
  const int64_t begin = int64_t(blockIdx.z) * kMlpSlice;
  const int64_t end = rows - begin < kMlpSlice ? rows : begin + kMlpSlice;
  const int tk = int(threadIdx.x) % kTile, to = int(threadIdx.x) / kTile;
  float weight = 0.f, bias = 0.f;
  for (int64_t chunk = begin; chunk < end; chunk += kChunk) {
    for (int i = int(threadIdx.x); i < kTile * kChunk; i += kTile * kTile) {
      const int f = i / kChunk, c = i % kChunk;
      const bool live = chunk + c < end;
      in[f][c] = live && first_k + f < layer.in ? x[(first_k + f) * stride + chunk + c] : 0.f;
      out[f][c] = live && first_o + f < layer.out ? dz[(first_o + f) * stride + chunk + c] : 0.f;
    }
    __syncthreads();
    for (int c = 0; c < kChunk; ++c) {
      weight = fmaf(out[to][c], in[tk][c], weight);
      bias += out[to][c];
    }
    __syncthreads();
  }
  const int64_t k = first_k + tk, o = first_o + to, lane = int64_t(blockIdx.z) * lane_stride;
  if (k >= layer.in || o >= layer.out) return;
  grad.weight[lane + o * layer.in + k] += weight;
  if (k == 0) grad.bias[lane + o] += bias;
}

constexpr int kThreads = 128;

}  // namespace

int mlp_forward_cuda(const MlpForward& f, void* stream) {
  const float* x = f.x;
  for (size_t l = 0; l < f.layers.size(); ++l) {
    const DenseLayer& layer = f.layers[l];
    if (const int error = launch_kernel(
            dense_forward,
            {.grid = {blocks_of(f.rows, kThreads), blocks_of(layer.out, kOutputs)},
             .block = {kThreads}},
            stream, layer, x, f.y[l], f.slope ? f.slope[l] : nullptr, f.stride, f.rows))
      return error;
    x = f.y[l];
  }
  return int(cudaSuccess);
}

int mlp_backward_cuda(const MlpBackward& b, int64_t lane_stride, void* stream) {
  const size_t last = b.layers.size() - 1;
  auto slope = [&](size_t l) { return b.slope ? b.slope[l] : nullptr; };
  const int64_t count = b.layers[last].out * b.stride;
  if (const int error =
          launch_kernel(multiply_slope, thread_each(count, kThreads), stream,
                        b.layers[last].activation, b.y[last], slope(last), b.dy[last], count))
    return error;
  for (size_t l = b.layers.size(); l-- > 0;) {
    const DenseLayer& layer = b.layers[l];
    const float* x = l ? b.y[l - 1] : b.x;
    if (const int error =
            launch_kernel(dense_weight_grad,
                          {.grid = {blocks_of(layer.in, kTile), blocks_of(layer.out, kTile),
                                    blocks_of(b.rows, kMlpSlice)},
                           .block = {kTile * kTile}},
                          stream, layer, b.grad[l], x, b.dy[l], b.stride, b.rows, lane_stride))
      return error;
    float* dx = l ? b.dy[l - 1] : b.dx;
    const int64_t features = l ? layer.in : b.dx_features;
    if (!dx) continue;
    if (const int error =
            launch_kernel(dense_input_grad,
                          {.grid = {blocks_of(b.rows, kThreads), blocks_of(features, kOutputs)},
                           .block = {kThreads}},
                          stream, layer, b.dy[l], l ? b.layers[l - 1].activation : Activation::none,
                          x, l ? slope(l - 1) : nullptr, dx, features, b.stride, b.rows))
      return error;
  }
  return int(cudaSuccess);
}

}  // namespace maglev
