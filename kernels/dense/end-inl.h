// LayerNorm with Mish or SimNorm over the features of a panel, one lane a row.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_KERNELS_DENSE_END_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_DENSE_END_INL_H_
#undef MAGLEV_KERNELS_DENSE_END_INL_H_
#else
#define MAGLEV_KERNELS_DENSE_END_INL_H_
#endif

#include <hwy/highway.h>

#include "base/simd/order-inl.h"
#include "base/simd/pairs-inl.h"
#include "kernels/dense/dense.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// exp(x) for x in [-87, 88]: a third of exp_vector's work, which also serves what lies outside.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_in_range(D d, V x) {
  const hn::RebindToSigned<D> integers;
  // adding 1.5 * 2^23 rounds to an integer, and leaves it plus 127 in the low bits: an exponent
  const V magic = hn::Set(d, 12582912.f + 127.f);
  const V biased = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(integers, biased)));
  // ln 2 in two parts, the first exact in its product with an exponent
  const V n = biased - magic;
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // minimax polynomial of (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2, relative error 1.1e-7
  V p = hn::Set(d, 0.00831252057f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.0418901555f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166671142f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.499992311f));
  p = hn::MulAdd(p, r * r, r);
  return hn::MulAdd(power, p, power);
}

/// x tanh(softplus(x)) = x n / (n + 2), n = e^x (e^x + 2): no digits cancel anywhere.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V mish_vector(D d, V x) {
  // beyond 20 the quotient rounds to 1, below -87 the result to 0
  const V w = exp_in_range(d, larger_of(smaller_of(x, hn::Set(d, 20.f)), hn::Set(d, -87.f)));
  const V two = hn::Set(d, 2.f), n = w * (w + two);
  return x * (n / (n + two));
}

/// A softmax of kSimNormGroup vectors, lane by lane, in place.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void softmax_group(D d, V (&x)[kSimNormGroup]) {
  V largest = x[0];
#pragma GCC unroll 8
  for (int64_t k = 1; k < kSimNormGroup; ++k) largest = larger_of(largest, x[k]);
  V total = hn::Zero(d);
#pragma GCC unroll 8
  for (int64_t k = 0; k < kSimNormGroup; ++k) {
    x[k] = exp_in_range(d, larger_of(x[k] - largest, hn::Set(d, -87.f)));
    total = total + x[k];
  }
  const V scale = hn::Set(d, 1.f) / total;
#pragma GCC unroll 8
  for (int64_t k = 0; k < kSimNormGroup; ++k) x[k] = x[k] * scale;
}

// where results go: features f and f + 1 of the rows from c on
struct StorePanel {
  float* y;
  int64_t stride;
  template <class D>
  HWY_INLINE void operator()(D d, int64_t f, int64_t c, hn::Vec<D> even, hn::Vec<D> odd) const {
    hn::Store(even, d, y + f * stride + c);
    hn::Store(odd, d, y + (f + 1) * stride + c);
  }
};

/// As bfloat16: a word of both.
struct StorePairs {
  uint32_t* pairs;
  int64_t stride;
  template <class D>
  HWY_INLINE void operator()(D d, int64_t f, int64_t c, hn::Vec<D> even, hn::Vec<D> odd) const {
    hn::Store(bfloat16_pair(d, even, odd), hn::RebindToUnsigned<D>(), pairs + f / 2 * stride + c);
  }
};

/// The statistics of kVectors vectors of rows; with `factor`, z becomes their product.
template <int kVectors, class D>
HWY_INLINE void layer_moments(D d, const DensePanelEnd& a, int64_t c, hn::Vec<D> (&mean)[kVectors],
                              hn::Vec<D> (&rstd)[kVectors]) {
  using V = hn::Vec<D>;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const V share = hn::Set(d, 1.f / float(a.out));
  for (int v = 0; v < kVectors; ++v) mean[v] = rstd[v] = hn::Zero(d);
  for (int64_t f = 0; f < a.out; ++f)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = f * a.stride + c + v * lanes;
      V x = hn::Load(d, a.z + at);
      if (a.factor) {
        x = x * hn::Load(d, a.factor + at);
        hn::Store(x, d, a.z + at);
      }
      mean[v] = mean[v] + x;
    }
  for (int v = 0; v < kVectors; ++v) mean[v] = mean[v] * share;
  for (int64_t f = 0; f < a.out; ++f)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const V x = hn::Load(d, a.z + f * a.stride + c + v * lanes) - mean[v];
      rstd[v] = hn::MulAdd(x, x, rstd[v]);
    }
  for (int v = 0; v < kVectors; ++v) {
    rstd[v] = hn::Set(d, 1.f) / hn::Sqrt(hn::MulAdd(rstd[v], share, hn::Set(d, kLayerNormEps)));
    if (a.rstd) hn::Store(rstd[v], d, a.rstd + c + v * lanes);
  }
}

/// LayerNorm and the end of kVectors vectors of rows, to `store`, which takes features in pairs.
template <int kVectors, class D, class Store>
HWY_NOINLINE void end_strip(D d, const DensePanelEnd& a, int64_t c, const Store& store) {
  using V = hn::Vec<D>;
  const int64_t lanes = int64_t(hn::Lanes(d));
  V mean[kVectors], rstd[kVectors];
  layer_moments<kVectors>(d, a, c, mean, rstd);
  const auto normalised = [&](int64_t f, int v) HWY_ATTR {
    const int64_t at = f * a.stride + c + v * lanes;
    const V xhat = (hn::Load(d, a.z + at) - mean[v]) * rstd[v];
    if (a.xhat) hn::Store(xhat, d, a.xhat + at);
    return hn::MulAdd(xhat, hn::Set(d, a.gain[f]), hn::Set(d, a.shift[f]));
  };
  if (a.end == DenseEnd::mish) {
    for (int64_t f = 0; f < a.out; f += 2)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        store(d, f, c + v * lanes, mish_vector(d, normalised(f, v)),
              mish_vector(d, normalised(f + 1, v)));
    return;
  }
  for (int64_t f = 0; f < a.out; f += kSimNormGroup)
    for (int v = 0; v < kVectors; ++v) {
      V x[kSimNormGroup];
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; ++k) x[k] = normalised(f + k, v);
      softmax_group(d, x);
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; k += 2) store(d, f + k, c + v * lanes, x[k], x[k + 1]);
    }
}

template <class Store>
void end_panel(const DensePanelEnd& a, const Store& store) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), width = (a.rows + 15) / 16 * 16;
  int64_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes) end_strip<4>(d, a, c, store);
  for (; c + 2 * lanes <= width; c += 2 * lanes) end_strip<2>(d, a, c, store);
  for (; c < width; c += lanes) end_strip<1>(d, a, c, store);
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
