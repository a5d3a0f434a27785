// exp, log, sine and cosine of float vectors, each lane by the same operations: within 2 units in
// the last place, NaN stays NaN.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_BASE_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_MATH_INL_H_
#undef MAGLEV_BASE_SIMD_MATH_INL_H_
#else
#define MAGLEV_BASE_SIMD_MATH_INL_H_
#endif

#include <limits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ln 2 in two parts, the first exact in its product with an exponent
constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

/// exp(r), |r| <= ln 2 / 2, by Taylor's series: the first term left out is below 6e-9.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_series(D d, V r) {
  V p = hn::Set(d, 1.f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  return hn::MulAdd(p, r * r, r) + hn::Set(d, 1.f);
}

/// exp(x) = 2^n exp(r), x = n ln 2 + r. Below the smallest normal number it is exactly 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_vector(D d, V x) {
  const hn::RebindToSigned<D> integers;
  const V n = hn::Round(x * hn::Set(d, 1.44269504f));
  V r = hn::NegMulAdd(n, hn::Set(d, kLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), r);
  V p = exp_series(d, r);
  // in two factors: 2^128 alone is no float, its product with p may be
  const auto exponent = hn::ConvertTo(integers, n);
  const auto half = hn::ShiftRight<1>(exponent), bias = hn::Set(integers, 127);
  p = p * hn::BitCast(d, hn::ShiftLeft<23>(half + bias)) *
      hn::BitCast(d, hn::ShiftLeft<23>(exponent - half + bias));
  p = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.336544f)), p);
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.722839f)), infinity, p);
}

/// log(x) of normal numbers above 0 and infinity.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_vector(D d, V x) {
  const hn::RebindToSigned<D> integers;
  // x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2))
  const auto root_half = hn::Set(integers, 0x3f3504f3), one = hn::Set(integers, 0x3f800000);
  const auto bits = hn::BitCast(integers, x) + (one - root_half);
  const V e = hn::ConvertTo(d, hn::ShiftRight<23>(bits) - hn::Set(integers, 127));
  const V f =
      hn::BitCast(d, hn::And(bits, hn::Set(integers, 0x007fffff)) + root_half) - hn::Set(d, 1.f);
  // log(1 + f) = 2 artanh(s) with s = f / (2 + f), whose series is in s^2 <= 0.03; written as f
  // less a small rest so that f's own digits stay
  const V s = f / (f + hn::Set(d, 2.f)), z = s * s;
  V r = hn::Set(d, 2.f / 9);
  r = hn::MulAdd(r, z, hn::Set(d, 2.f / 7));
  r = hn::MulAdd(r, z, hn::Set(d, 2.f / 5));
  r = hn::MulAdd(r, z, hn::Set(d, 2.f / 3));
  const V square = hn::Set(d, 0.5f) * f * f;
  const V rest = square - hn::MulAdd(s, hn::MulAdd(r, z, square), e * hn::Set(d, kLn2Low));
  const V result = hn::MulAdd(e, hn::Set(d, kLn2High), f - rest);
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Lt(x, infinity), result, x);
}

/// Sine and cosine of x in [0, 2 pi].
template <class D, class V = hn::Vec<D>>
HWY_INLINE void sine_cosine(D d, V x, V& sine, V& cosine) {
  const hn::RebindToSigned<D> integers;
  // x = q pi/2 + r; pi/2 in three parts, the first two exact in their products with q
  const V q = hn::Round(x * hn::Set(d, 0.636619772f));
  V r = hn::NegMulAdd(q, hn::Set(d, 1.5703125f), x);
  r = hn::NegMulAdd(q, hn::Set(d, 4.83751296997e-4f), r);
  r = hn::NegMulAdd(q, hn::Set(d, 7.54978995489e-8f), r);
  // Taylor's series, |r| <= pi/4
  const V z = r * r;
  V s = hn::Set(d, 1.f / 362880);
  s = hn::MulAdd(s, z, hn::Set(d, -1.f / 5040));
  s = hn::MulAdd(s, z, hn::Set(d, 1.f / 120));
  s = hn::MulAdd(s, z, hn::Set(d, -1.f / 6));
  s = hn::MulAdd(s, z * r, r);
  V c = hn::Set(d, -1.f / 3628800);
  c = hn::MulAdd(c, z, hn::Set(d, 1.f / 40320));
  c = hn::MulAdd(c, z, hn::Set(d, -1.f / 720));
  c = hn::MulAdd(c, z, hn::Set(d, 1.f / 24));
  c = hn::MulAdd(c, z, hn::Set(d, -0.5f));
  c = hn::MulAdd(c, z, hn::Set(d, 1.f));
  // quarter turns swap them and change signs
  const auto quarter = hn::ConvertTo(integers, q), one = hn::Set(integers, 1);
  const auto swap = hn::RebindMask(d, hn::Eq(hn::And(quarter, one), one));
  const V sine_sign = hn::BitCast(d, hn::ShiftLeft<31>(hn::ShiftRight<1>(quarter)));
  const V cosine_sign = hn::BitCast(d, hn::ShiftLeft<31>(hn::ShiftRight<1>(quarter + one)));
  sine = hn::Xor(hn::IfThenElse(swap, c, s), sine_sign);
  cosine = hn::Xor(hn::IfThenElse(swap, s, c), cosine_sign);
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
