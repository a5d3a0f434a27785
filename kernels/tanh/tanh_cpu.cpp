#include "kernels/tanh/tanh.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tanh/tanh_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// tanh(x) = e / (e + 2) with e = exp(2x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), 2x = n ln 2 + r: no
// digits cancel near 0, where n = 0
template <class D, class V = hn::Vec<D>>
V tanh_vector(D d, V x) {
  const hn::RebindToSigned<D> integers;
  // of the absolute value, so that the result is odd to the bit; beyond 9.02 the nearest float is 1
  const V a = hn::Abs(x);
  const V y = hn::Min(a + a, hn::Set(d, 18.04f));
  const V n = hn::Round(y * hn::Set(d, 1.44269504f));
  // ln 2 in two parts, the first exact in its product with n
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), y);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // Taylor's series of exp(r) - 1; |r| <= ln 2 / 2, so the first term left out is below 5e-9 of r
  V p = hn::Set(d, 1.f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r * r, r);
  const V power =
      hn::BitCast(d, hn::ShiftLeft<23>(hn::ConvertTo(integers, n) + hn::Set(integers, 127)));
  const V e = hn::MulAdd(power, p, power - hn::Set(d, 1.f));
  const V result = hn::CopySignToAbs(e / (e + hn::Set(d, 2.f)), x);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

void tanh_array(float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(tanh_vector(d, hn::LoadU(d, x + i)), d, x + i);
  if (i == count) return;
  // the rest goes through a whole vector too, so that no number is treated otherwise
  HWY_ALIGN float rest[hn::MaxLanes(d)] = {};
  for (int64_t k = i; k < count; ++k) rest[k - i] = x[k];
  hn::Store(tanh_vector(d, hn::Load(d, rest)), d, rest);
  for (int64_t k = i; k < count; ++k) x[k] = rest[k - i];
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(tanh_array);

void tanh_cpu(float* x, int64_t count) { HWY_DYNAMIC_DISPATCH(tanh_array)(x, count); }

}  // namespace maglev
#endif
