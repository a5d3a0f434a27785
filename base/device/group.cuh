#pragma once
// kGroup numbers of f32 or bf16 that lie together, read and written as 16 bytes at a time: where
// they begin at 16 bytes.

#include <cstdint>

#include <cuda_runtime.h>

#include "base/core/bfloat16.h"

namespace maglev {

constexpr int kGroup = 8;

struct alignas(16) Float4 {
  float f[4];
};
struct alignas(16) Bf16x8 {
  uint16_t bits[8];
};

__device__ inline void load_group(const float* x, float (&to)[kGroup]) {
  for (int h = 0; h < 2; ++h) {
    const Float4 part = reinterpret_cast<const Float4*>(x)[h];
    for (int k = 0; k < 4; ++k) to[4 * h + k] = part.f[k];
  }
}
__device__ inline void load_group(const uint16_t* x, float (&to)[kGroup]) {
  const Bf16x8 part = *reinterpret_cast<const Bf16x8*>(x);
  for (int k = 0; k < kGroup; ++k) to[k] = __uint_as_float(uint32_t(part.bits[k]) << 16);
}
/// Where they may begin anywhere, unless `aligned`.
__device__ inline void load_group(const float* x, bool aligned, float (&to)[kGroup]) {
  if (aligned) return load_group(x, to);
  for (int k = 0; k < kGroup; ++k) to[k] = x[k];
}
__device__ inline bool is_aligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % 16 == 0;
}
__device__ inline void store_group(float* x, const float (&from)[kGroup]) {
  for (int h = 0; h < 2; ++h) {
    Float4 part;
    for (int k = 0; k < 4; ++k) part.f[k] = from[4 * h + k];
    reinterpret_cast<Float4*>(x)[h] = part;
  }
}
__device__ inline void store_group(uint16_t* x, const float (&from)[kGroup]) {
  Bf16x8 part;
  for (int k = 0; k < kGroup; ++k) part.bits[k] = bfloat16_bits(from[k]);
  *reinterpret_cast<Bf16x8*>(x) = part;
}

}  // namespace maglev
