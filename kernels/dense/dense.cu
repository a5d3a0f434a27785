#include "base/core/bfloat16.h"
#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/dense/dense.h"

namespace maglev {
namespace {

constexpr int kGroup = int(kSimNormGroup), kWarps = 4;

// kGroup consecutive features of a row, as 16 or 32 aligned bytes

struct alignas(16) Float4 {
  float f[4];
};
struct alignas(16) Bf16x8 {
  uint16_t bits[8];
};

__device__ void load(const float* x, float (&to)[kGroup]) {
  for (int h = 0; h < 2; ++h) {
    const Float4 part = reinterpret_cast<const Float4*>(x)[h];
    for (int k = 0; k < 4; ++k) to[4 * h + k] = part.f[k];
  }
}
__device__ void load(const uint16_t* x, float (&to)[kGroup]) {
  const Bf16x8 part = *reinterpret_cast<const Bf16x8*>(x);
  for (int k = 0; k < kGroup; ++k) to[k] = __uint_as_float(uint32_t(part.bits[k]) << 16);
}
__device__ void store(float* x, const float (&from)[kGroup]) {
  for (int h = 0; h < 2; ++h) {
    Float4 part;
    for (int k = 0; k < 4; ++k) part.f[k] = from[4 * h + k];
    reinterpret_cast<Float4*>(x)[h] = part;
  }
}
__device__ void store(uint16_t* x, const float (&from)[kGroup]) {
  Bf16x8 part;
  for (int k = 0; k < kGroup; ++k) part.bits[k] = bfloat16_bits(from[k]);
  *reinterpret_cast<Bf16x8*>(x) = part;
}

__device__ float mish(float x) {
  const float w = expf(fminf(x, 20.f)), n = w * (w + 2.f);
  return x * (n / (n + 2.f));
}

__device__ void softmax(float (&x)[kGroup]) {
  float largest = x[0], total = 0.f;
  for (int k = 1; k < kGroup; ++k) largest = fmaxf(largest, x[k]);
  for (int k = 0; k < kGroup; ++k) total += x[k] = expf(x[k] - largest);
  for (int k = 0; k < kGroup; ++k) x[k] /= total;
}

// a warp takes a row, a lane every 32nd group of it; up to kGroups groups a lane stay in registers
template <class T, int kGroups>
__global__ void end_rows(DenseEndRows a) {
  const int64_t at = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = int(threadIdx.x % 32);
  if (at >= a.envs * a.nets * a.rows) return;
  const int64_t row = at % a.rows, net = at / a.rows % a.nets, env = at / a.rows / a.nets;
  auto place = [=](const DenseSteps& s) { return env * s.env + net * s.net; };
  const T* x = static_cast<const T*>(a.x) + place(a.from) + row * a.from.row;
  T* y = static_cast<T*>(a.y) + place(a.to) + row * a.to.row;
  const float* start = a.start ? a.start + place(a.start_steps) : nullptr;
  const float *gain = a.gain + place(a.gain_steps), *shift = a.shift + place(a.gain_steps);
  float value[kGroups][kGroup], sum = 0.f, squares = 0.f;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t f = int64_t(g * 32 + lane) * kGroup;
    if (f >= a.features) break;
    load(x + f, value[g]);
    for (int k = 0; k < kGroup; ++k) {
      if (start) value[g][k] += start[f + k];
      sum += value[g][k];
    }
  }
  const float mean = warp_sum(sum) / float(a.features);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (int64_t(g * 32 + lane) * kGroup >= a.features) break;
    for (int k = 0; k < kGroup; ++k) {
      value[g][k] -= mean;
      squares += value[g][k] * value[g][k];
    }
  }
  const float rstd = 1.f / sqrtf(warp_sum(squares) / float(a.features) + kLayerNormEps);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int64_t f = int64_t(g * 32 + lane) * kGroup;
    if (f >= a.features) break;
    for (int k = 0; k < kGroup; ++k) {
      value[g][k] = value[g][k] * rstd * gain[f + k] + shift[f + k];
      if (a.end == DenseEnd::mish) value[g][k] = mish(value[g][k]);
    }
    if (a.end == DenseEnd::simnorm) softmax(value[g]);
    store(y + f, value[g]);
  }
}

template <class T>
int launch(const DenseEndRows& a, void* stream) {
  const LaunchShape shape = warp_each(a.envs * a.nets * a.rows, kWarps);
  const int64_t groups = (a.features + 32 * kGroup - 1) / (32 * kGroup);
  if (groups <= 2) return launch_kernel(end_rows<T, 2>, shape, stream, a);
  if (groups <= 4) return launch_kernel(end_rows<T, 4>, shape, stream, a);
  if (groups <= 16) return launch_kernel(end_rows<T, 16>, shape, stream, a);
  return int(cudaErrorInvalidValue);
}

}  // namespace

int dense_end_cuda(const DenseEndRows& args, void* stream) {
  return args.bf16 ? launch<uint16_t>(args, stream) : launch<float>(args, stream);
}

}  // namespace maglev
