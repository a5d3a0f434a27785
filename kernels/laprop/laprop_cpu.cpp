#include "kernels/laprop/laprop.h"

#include <algorithm>

#include "base/simd/subnormals.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/laprop/laprop_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// in f64 and parts that vectors of any width fill alike
double sum_of_squares(const float* x, int64_t count) {
  constexpr int64_t kParts = 16;
  double part[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= count; i += kParts)
    for (int64_t p = 0; p < kParts; ++p) part[p] += double(x[i + p]) * double(x[i + p]);
  for (; i < count; ++i) part[i % kParts] += double(x[i]) * double(x[i]);
  double sum = 0;
  for (double p : part) sum += p;
  return sum;
}

void reduce_chunk(const LaPropArgs& a, int64_t c) {
  const hn::ScalableTag<float> d;
  const LaPropChunk& chunk = a.chunks[c];
  float* sum = a.grad + chunk.begin;
  const auto unscale = hn::Set(d, a.unscale ? *a.unscale : 1.f);
  if (a.lanes > 1 || a.unscale)
    for_each_vector(d, chunk.count, [&](int64_t i, auto part) HWY_ATTR {
      auto v = part.load(sum + i);
      for (int64_t l = 1; l < a.lanes; ++l) v = v + part.load(sum + l * a.lane_stride + i);
      part.store(v * unscale, sum + i);
    });
  a.partial[2 * c] = sum_of_squares(sum, chunk.count);
  a.partial[2 * c + 1] = sum_of_squares(a.data + chunk.begin, chunk.count);
}

void step_chunk(const LaPropArgs& a, int64_t c) {
  const hn::ScalableTag<float> d;
  const LaPropStep& step = *a.step;
  if (step.apply == 0) return;
  const LaPropChunk& chunk = a.chunks[c];
  const auto factor = hn::Set(d, a.factor[chunk.tensor]), eps = hn::Set(d, float(a.eps));
  const auto share1 = hn::Set(d, float(1 - a.beta1)), share2 = hn::Set(d, float(1 - a.beta2));
  const auto unbias2 = hn::Set(d, 1.f / step.unbiased2);
  const auto rate = hn::Set(d, *a.lr / step.unbiased1);
  float *grad = a.grad + chunk.begin, *data = a.data + chunk.begin;
  float *momentum = a.momentum + chunk.begin, *squares = a.squares + chunk.begin;
  for_each_vector(d, chunk.count, [&](int64_t i, auto part) HWY_ATTR {
    const auto g = part.load(grad + i) * factor;
    const auto v = part.load(squares + i), m = part.load(momentum + i);
    const auto next_v = hn::MulAdd(share2, hn::MulSub(g, g, v), v);
    const auto size = hn::Sqrt(next_v * unbias2) + eps;
    const auto next_m = hn::MulAdd(share1, g / size - m, m);
    part.store(g, grad + i);
    part.store(next_v, squares + i);
    part.store(next_m, momentum + i);
    part.store(hn::NegMulAdd(rate, next_m, part.load(data + i)), data + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(reduce_chunk);
HWY_EXPORT(step_chunk);

void laprop_reduce_cpu(const LaPropArgs& args, int64_t chunk) {
  const WithoutSubnormals flushed;
  HWY_DYNAMIC_DISPATCH(reduce_chunk)(args, chunk);
}

void laprop_clip_cpu(const LaPropArgs& a) {
  double whole = 0, grad = 0, data = 0;
  for (int64_t c = 0; c < a.chunk_count; ++c) {
    grad += a.partial[2 * c], data += a.partial[2 * c + 1];
    const int64_t tensor = a.chunks[c].tensor;
    if (c + 1 < a.chunk_count && a.chunks[c + 1].tensor == tensor) continue;
    a.factor[tensor] = laprop_factor(a, grad, data);
    whole += grad, grad = data = 0;
  }
  laprop_begin_step(a, whole);
}

void laprop_step_cpu(const LaPropArgs& args, int64_t chunk) {
  const WithoutSubnormals flushed;
  HWY_DYNAMIC_DISPATCH(step_chunk)(args, chunk);
}

}  // namespace maglev
#endif
