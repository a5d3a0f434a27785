// tanh of one vector, for kernels that end in it. Included once a target, as Highway's own headers
// are.

#if defined(MAGLEV_BASE_SIMD_TANH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_TANH_INL_H_
#undef MAGLEV_BASE_SIMD_TANH_INL_H_
#else
#define MAGLEV_BASE_SIMD_TANH_INL_H_
#endif

#include <hwy/highway.h>

#include "base/simd/order-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// tanh(x) = e / (e + 2) with e = exp(2x) - 1 = 2^n (exp(2r) - 1) + (2^n - 1), x = n ln 2 / 2 + r:
// no digits cancel near 0, where n = 0
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_vector(D d, V x) {
  const hn::RebindToSigned<D> integers;
  // of the absolute value, so that the result is odd to the bit; beyond 9.02 the nearest float is
  // 1. The second operand is given where one is NaN.
  const V a = smaller_of(hn::Set(d, 9.02f), hn::Abs(x));
  // adding 1.5 * 2^23 rounds to an integer, and leaves it plus 127 in the low bits: an exponent
  const V magic = hn::Set(d, 12582912.f + 127.f);
  const V biased = hn::MulAdd(a, hn::Set(d, 2.88539008f), magic);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, biased)));
  const V r = hn::NegMulAdd(biased - magic, hn::Set(d, 0.346573590f), a);
  // minimax polynomial of (exp(2r) - 1 - 2r) / r^2 for |r| <= ln 2 / 4, relative error 1.4e-8
  V p = hn::Set(d, 0.0888481364f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.267728657f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.666675210f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.33332348f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.99999988f));
  p = hn::MulAdd(p, r * r, r + r);
  const V e = hn::MulAdd(power, p, power - hn::Set(d, 1.f));
  return hn::CopySignToAbs(e / (e + hn::Set(d, 2.f)), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
