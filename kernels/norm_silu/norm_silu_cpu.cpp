#include "kernels/norm_silu/norm_silu.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm_silu/norm_silu_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/run-inl.h"
#include "base/simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a row's sums in parts, so that they do not depend on a vector's width
using RowSum = PartedSum<float, 16>;
using RowTag = RowSum::D;

void norm_silu_rows(const NormSiluArgs& a) {
  const RowTag d;
  const int64_t elements = a.blocks * a.width;
  const float count = float(elements);
  const auto one = hn::Set(d, 1.f);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* row_bias = a.bias + r % a.groups * elements;
    const float* row_scale = a.scale + r % a.groups * elements;
    RowSum squares;
    for (int64_t g = 0; g < a.blocks; ++g) {
      float* x = a.x.block(r, g);
      const float* bias = row_bias + g * a.width;
      for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
        const auto v = part.load(x + i) + part.load(bias + i);
        part.store(v, x + i);
        auto& sum = squares.of(int(i / RowSum::kLanes));
        sum = hn::MulAdd(v, v, sum);
      });
    }
    const float inverse = 1.f / std::sqrt(squares.fold() / count + a.eps);
    a.inverse[r] = inverse;
    const auto by = hn::Set(d, inverse);
    for (int64_t g = 0; g < a.blocks; ++g) {
      const float *x = a.x.block(r, g), *scale = row_scale + g * a.width;
      float* out = a.out.block(r, g);
      for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
        const auto y = part.load(x + i) * by * part.load(scale + i);
        part.store(y / (one + exp_vector(d, hn::Neg(y))), out + i);
      });
    }
  }
}

void norm_silu_back_rows(const NormSiluBack& a) {
  const RowTag d;
  const int64_t elements = a.blocks * a.width;
  const float count = float(elements);
  const auto one = hn::Set(d, 1.f);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* row_scale = a.scale + r % a.groups * elements;
    const float inverse = a.inverse[r];
    const auto by = hn::Set(d, inverse);
    RowSum dot;
    // through SiLU, and what the norm's mean has of each element
    for (int64_t g = 0; g < a.blocks; ++g) {
      const float *x = a.pre.block(r, g), *scale = row_scale + g * a.width;
      const float* d_out = a.d_out.block(r, g);
      float *d_pre = a.d_pre.block(r, g), *d_scale = a.d_scale.block(r, g);
      for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
        const auto v = part.load(x + i), gain = part.load(scale + i), normed = v * by;
        const auto y = normed * gain, s = one / (one + exp_vector(d, hn::Neg(y)));
        const auto dy = part.load(d_out + i) * s * hn::MulAdd(y, one - s, one);
        const auto d_normed = dy * gain;
        part.store(dy * normed, d_scale + i);
        part.store(d_normed, d_pre + i);
        auto& sum = dot.of(int(i / RowSum::kLanes));
        sum = hn::MulAdd(d_normed, v, sum);
      });
    }
    const auto mean = hn::Set(d, inverse * inverse * dot.fold() / count);
    for (int64_t g = 0; g < a.blocks; ++g) {
      const float* x = a.pre.block(r, g);
      float* d_pre = a.d_pre.block(r, g);
      for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
        part.store(by * hn::NegMulAdd(part.load(x + i), mean, part.load(d_pre + i)), d_pre + i);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(norm_silu_rows);
HWY_EXPORT(norm_silu_back_rows);

void norm_silu_cpu(const NormSiluArgs& args) { HWY_DYNAMIC_DISPATCH(norm_silu_rows)(args); }
void norm_silu_back_cpu(const NormSiluBack& args) {
  HWY_DYNAMIC_DISPATCH(norm_silu_back_rows)(args);
}

}  // namespace maglev
#endif
