// Panels of bfloat16 pairs: made from f32, and the ends of layers that give them. Eight bits are
// kept, so exponentials and quotients are made to fourteen.
#include "kernels/dense/dense_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense/dense_pairs_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Two features as bfloat16, rounded to nearest even, in the halves of a word. They are finite.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> bfloat16_pair(D, hn::Vec<D> even, hn::Vec<D> odd) {
  const hn::RebindToUnsigned<D> words;
  const auto rounded = [&](hn::Vec<D> x) HWY_ATTR {
    const auto bits = hn::BitCast(words, x);
    const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
    return bits + hn::Set(words, 0x7FFFu) + last;
  };
  return hn::Or(hn::ShiftRight<16>(rounded(even)),
                hn::And(rounded(odd), hn::Set(words, 0xFFFF0000u)));
}

/// exp(x) within 8e-5 of itself, x cut to [-87, 20].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V rough_exp(D d, V x) {
  const hn::RebindToSigned<D> integers;
  const V power =
      hn::Set(d, 1.44269504f) * hn::Max(hn::Min(x, hn::Set(d, 20.f)), hn::Set(d, -87.f));
  // adding 1.5 * 2^23 rounds to an integer, which the low bits then hold
  const V magic = hn::Set(d, 12582912.f), shifted = power + magic;
  const V f = power - (shifted - magic);
  // minimax polynomial of 2^f for |f| <= 1/2
  V p = hn::MulAdd(hn::Set(d, 0.0551715381f), f, hn::Set(d, 0.242612079f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693261087f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.999927998f));
  return hn::BitCast(d,
                     hn::BitCast(integers, p) + hn::ShiftLeft<23>(hn::BitCast(integers, shifted)));
}

// LayerNorm of a feature: (x * rstd + offset) * gain + shift, offset = -mean * rstd
template <int kVectors, class D>
struct Normalised {
  const DensePairsEnd& a;
  int64_t c;
  hn::Vec<D> rstd[kVectors], offset[kVectors];

  HWY_INLINE hn::Vec<D> operator()(D d, int64_t f, int v) const {
    const auto x = hn::Load(d, a.sums + f * a.stride + c + v * int64_t(hn::Lanes(d)));
    const auto xhat = hn::MulAdd(x, rstd[v], offset[v]);
    return hn::MulAdd(xhat, hn::Set(d, a.gain[f]), hn::Set(d, a.shift[f]));
  }
};

template <int kVectors, class D>
HWY_NOINLINE void end_strip(D d, const DensePairsEnd& a, int64_t c) {
  using V = hn::Vec<D>;
  const hn::RebindToUnsigned<D> words;
  const int64_t lanes = int64_t(hn::Lanes(d));
  Normalised<kVectors, D> normalised{.a = a, .c = c};
  const V share = hn::Set(d, 1.f / float(a.out));
  for (int v = 0; v < kVectors; ++v) {
    const V mean = hn::Load(d, a.moments + c + v * lanes) * share;
    const V square = hn::Load(d, a.moments + kPanelRows + c + v * lanes) * share;
    const V variance = hn::Max(hn::NegMulAdd(mean, mean, square), hn::Zero(d));
    normalised.rstd[v] = hn::Set(d, 1.f) / hn::Sqrt(variance + hn::Set(d, kLayerNormEps));
    normalised.offset[v] = hn::Neg(mean) * normalised.rstd[v];
  }
  if (a.end == DenseEnd::mish) {
    const auto mish = [&](int64_t f, int v) HWY_ATTR {
      // x tanh(softplus(x)) = x n / (n + 2), n = e^x (e^x + 2)
      const V x = normalised(d, f, v), w = rough_exp(d, x), two = hn::Set(d, 2.f);
      const V n = w * (w + two);
      return x * n * hn::ApproximateReciprocal(n + two);
    };
    for (int64_t f = 0; f < a.out; f += 2)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        hn::Store(bfloat16_pair(d, mish(f, v), mish(f + 1, v)), words,
                  a.y + f / 2 * a.stride + c + v * lanes);
    return;
  }
  for (int64_t f = 0; f < a.out; f += kSimNormGroup)
    for (int v = 0; v < kVectors; ++v) {
      V x[kSimNormGroup];
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; ++k) x[k] = normalised(d, f + k, v);
      V largest = x[0], total = hn::Zero(d);
#pragma GCC unroll 8
      for (int64_t k = 1; k < kSimNormGroup; ++k) largest = hn::Max(largest, x[k]);
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; ++k) {
        x[k] = rough_exp(d, x[k] - largest);
        total = total + x[k];
      }
      const V scale = hn::ApproximateReciprocal(total);
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; k += 2)
        hn::Store(bfloat16_pair(d, x[k] * scale, x[k + 1] * scale), words,
                  a.y + (f + k) / 2 * a.stride + c + v * lanes);
    }
}

void end_to_pairs(const DensePairsEnd& a) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), width = (a.rows + 15) / 16 * 16;
  int64_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes) end_strip<4>(d, a, c);
  for (; c + 2 * lanes <= width; c += 2 * lanes) end_strip<2>(d, a, c);
  for (; c < width; c += lanes) end_strip<1>(d, a, c);
}

void to_pairs(const float* x, int64_t features, int64_t stride, int64_t rows, uint32_t* pairs) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  for (int64_t f = 0; f < features; f += 2)
    for (int64_t c = 0; c < (rows + 15) / 16 * 16; c += int64_t(hn::Lanes(d))) {
      const auto even = hn::Load(d, x + f * stride + c);
      const auto odd = f + 1 < features ? hn::Load(d, x + (f + 1) * stride + c) : hn::Zero(d);
      hn::Store(bfloat16_pair(d, even, odd), words, pairs + f / 2 * stride + c);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(end_to_pairs);
HWY_EXPORT(to_pairs);

void dense_pairs_end_cpu(const DensePairsEnd& args) { HWY_DYNAMIC_DISPATCH(end_to_pairs)(args); }
void panel_to_pairs(const float* x, int64_t features, int64_t stride, int64_t rows,
                    uint32_t* pairs) {
  HWY_DYNAMIC_DISPATCH(to_pairs)(x, features, stride, rows, pairs);
}

}  // namespace maglev
#endif
