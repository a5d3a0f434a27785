#include "kernels/relu_norm/relu_norm.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/relu_norm/relu_norm_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/order-inl.h"
#include "base/simd/run-inl.h"
#include "base/simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a row's sums in parts, so that they do not depend on a vector's width
using ReluNormSum = PartedSum<float, 16>;
using ReluNormTag = ReluNormSum::D;

void relu_norm_rows(const ReluNormArgs& a) {
  const ReluNormTag d;
  const auto zero = hn::Zero(d);
  const float count = float(a.width);
  for (int64_t r = 0; r < a.rows; ++r) {
    float *z = a.z + r * a.width, *out = a.out + r * a.width;
    const float* past = a.past ? a.past + r * a.width : nullptr;

    // the mean of what relu leaves, then the mean square around it
    ReluNormSum sum, squares;
    for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
      const auto v = larger_of(zero, part.load(z + i) + part.load(a.bias + i));
      part.store(v, z + i);
      auto& of = sum.of(int(i / ReluNormSum::kLanes));
      of = of + v;
    });
    const float mean = sum.fold() / count;
    const auto centre = hn::Set(d, mean);
    for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
      // by way of memory: behind a run's end there is 0 again
      part.store(part.load(z + i) - centre, out + i);
      const auto v = part.load(out + i);
      auto& of = squares.of(int(i / ReluNormSum::kLanes));
      of = hn::MulAdd(v, v, of);
    });
    const float inverse = 1.f / std::sqrt(squares.fold() / count + a.eps);
    a.mean[r] = mean, a.inverse[r] = inverse;

    const auto by = hn::Set(d, inverse);
    for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
      auto y = hn::MulAdd(part.load(out + i) * by, part.load(a.gain + i), part.load(a.shift + i));
      if (past) y = y + part.load(past + i);
      part.store(y, out + i);
    });
  }
}

void relu_norm_back_rows(const ReluNormBack& a) {
  const ReluNormTag d;
  const auto zero = hn::Zero(d);
  const float count = float(a.width);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float *act = a.a + r * a.width, *d_out = a.d_out + r * a.width;
    float* d_z = a.d_z + r * a.width;
    float* d_gain = a.sums + r / kReluNormChunk * 3 * a.width;
    float *d_shift = d_gain + a.width, *d_bias = d_shift + a.width;
    if (r % kReluNormChunk == 0) std::fill_n(d_gain, 3 * a.width, 0.f);

    // what arrives at gain and shift, and how the row's mean and deviation moved
    const auto centre = hn::Set(d, a.mean[r]), by = hn::Set(d, a.inverse[r]);
    ReluNormSum sum, dot;
    for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
      const auto g = part.load(d_out + i), normed = (part.load(act + i) - centre) * by;
      const auto d_normed = g * part.load(a.gain + i);
      part.store(hn::MulAdd(g, normed, part.load(d_gain + i)), d_gain + i);
      part.store(g + part.load(d_shift + i), d_shift + i);
      part.store(d_normed, d_z + i);
      auto &of = sum.of(int(i / ReluNormSum::kLanes)), &with = dot.of(int(i / ReluNormSum::kLanes));
      of = of + d_normed;
      // behind a run's end d_normed is 0
      with = hn::MulAdd(d_normed, normed, with);
    });
    const auto mean = hn::Set(d, sum.fold() / count), slope = hn::Set(d, dot.fold() / count);

    // back through the norm and relu
    for_each_vector(d, a.width, [&](int64_t i, auto part) HWY_ATTR {
      const auto v = part.load(act + i), normed = (v - centre) * by;
      const auto d_a = by * hn::NegMulAdd(normed, slope, part.load(d_z + i) - mean);
      const auto dz = hn::IfThenElseZero(hn::Gt(v, zero), d_a);
      part.store(dz, d_z + i);
      part.store(dz + part.load(d_bias + i), d_bias + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(relu_norm_rows);
HWY_EXPORT(relu_norm_back_rows);

void relu_norm_cpu(const ReluNormArgs& args) { HWY_DYNAMIC_DISPATCH(relu_norm_rows)(args); }
void relu_norm_back_cpu(const ReluNormBack& args) {
  HWY_DYNAMIC_DISPATCH(relu_norm_back_rows)(args);
}

}  // namespace maglev
#endif
