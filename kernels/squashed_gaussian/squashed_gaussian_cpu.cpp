#include "kernels/squashed_gaussian/squashed_gaussian.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/squashed_gaussian/squashed_gaussian_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/order-inl.h"
#include "base/simd/tanh-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kHalfLog2Pi = 0.918938533f;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_std_of(D d, const LogStdBounds& bounds, V squashed) {
  const V half = hn::Set(d, 0.5f * (bounds.high - bounds.low));
  return hn::MulAdd(half, squashed + hn::Set(d, 1.f), hn::Set(d, bounds.low));
}

/// log(1 - tanh(x)^2), also where tanh is 1 to the last bit.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_slope(D d, V x) {
  const auto far = hn::Abs(x), one = hn::Set(d, 1.f);
  const auto left = log_vector(d, one + exp_vector(d, hn::Set(d, -2.f) * far));
  return hn::Set(d, 2.f) * (hn::Set(d, 0.693147181f) - far - left);
}

void draw(const SquashedGaussian& a) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), A = a.actions;
  const bool of_action = a.entropy_of == EntropyOf::action;
  const auto one = hn::Set(d, 1.f), zero = hn::Zero(d);
  for (int64_t c = 0; c < a.stride; c += lanes) {
    auto log_prob = zero, squash = zero;
    for (int64_t i = 0; i < A; ++i) {
      const int64_t at = i * a.stride + c;
      const auto mean = hn::Load(d, a.head + at);
      const auto spread = hn::Load(d, a.head + at + A * a.stride);
      const auto log_std = log_std_of(d, a.bounds, tanh_vector(d, spread));
      const auto noise = a.noise ? hn::Load(d, a.noise + at) : zero;
      const auto drawn = hn::MulAdd(noise, exp_vector(d, log_std), mean);
      const auto action = tanh_vector(d, drawn);
      hn::Store(action, d, a.action + at);
      log_prob =
          log_prob - hn::MulAdd(hn::Set(d, 0.5f) * noise, noise, log_std + hn::Set(d, kHalfLog2Pi));
      if (of_action) {
        squash = squash + log_slope(d, drawn);
      } else {
        const auto left = larger_of((one - action) * (one + action), zero);
        squash = squash + log_vector(d, left + hn::Set(d, 1e-6f));
      }
    }
    const auto entropy = squash - log_prob, scale = hn::Set(d, float(A));
    if (a.entropy) hn::Store(entropy, d, a.entropy + c);
    if (a.scaled_entropy)
      hn::Store(scale * (of_action ? entropy : zero - log_prob), d, a.scaled_entropy + c);
  }
}

void gradient(const SquashedGaussianGrad& a) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), A = a.actions;
  const auto one = hn::Set(d, 1.f);
  const auto half = hn::Set(d, 0.5f * (a.bounds.high - a.bounds.low));
  const auto from_entropy = hn::Set(d, a.d_scaled_entropy * float(A));
  const auto from_slope =
      a.entropy_of == EntropyOf::action ? hn::Set(d, -2.f) * from_entropy : hn::Zero(d);
  for (int64_t c = 0; c < a.stride; c += lanes) {
    const auto counts = hn::FirstN(d, size_t(std::clamp<int64_t>(a.rows - c, 0, lanes)));
    for (int64_t i = 0; i < A; ++i) {
      const int64_t at = i * a.stride + c, at_spread = at + A * a.stride;
      const auto action = hn::Load(d, a.action + at);
      const auto squashed = tanh_vector(d, hn::Load(d, a.head + at_spread));
      const auto std = exp_vector(d, log_std_of(d, a.bounds, squashed));
      const auto d_mean = hn::MulAdd(hn::Load(d, a.d_action + at),
                                     hn::NegMulAdd(action, action, one), from_slope * action);
      const auto d_log_std = hn::MulAdd(d_mean, hn::Load(d, a.noise + at) * std, from_entropy);
      const auto d_spread = d_log_std * half * hn::NegMulAdd(squashed, squashed, one);
      hn::Store(hn::IfThenElseZero(counts, d_mean), d, a.d_head + at);
      hn::Store(hn::IfThenElseZero(counts, d_spread), d, a.d_head + at_spread);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(draw);
HWY_EXPORT(gradient);

void squashed_gaussian_cpu(const SquashedGaussian& args) { HWY_DYNAMIC_DISPATCH(draw)(args); }
void squashed_gaussian_grad_cpu(const SquashedGaussianGrad& args) {
  HWY_DYNAMIC_DISPATCH(gradient)(args);
}
void squashed_gaussian_rows_cpu(const SquashedGaussianRows& args) {
  for (int64_t r = 0; r < args.rows; ++r) squashed_row(args, r);
}
void squashed_gaussian_rows_grad_cpu(const SquashedGaussianRowsGrad& args) {
  for (int64_t r = 0; r < args.rows; ++r) squashed_row_grad(args, r);
}

}  // namespace maglev
#endif
