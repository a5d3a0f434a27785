// Winograd's transforms, F(4 x 4, 3 x 3), along one side: kIn vectors to kOut. Interpolation is at
// 0, 1, -1, 2, -2 and infinity. What one side does, both_sides does to a square.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_KERNELS_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_WINOGRAD_INL_H_
#undef MAGLEV_KERNELS_WINOGRAD_INL_H_
#else
#define MAGLEV_KERNELS_WINOGRAD_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSeen = 6, kMade = 4, kFilter = 3;

template <class D>
HWY_INLINE hn::Vec<D> times(D d, float factor, hn::Vec<D> v) {
  return hn::Set(d, factor) * v;
}
/// sum + factor v.
template <class D>
HWY_INLINE hn::Vec<D> plus(D d, hn::Vec<D> sum, float factor, hn::Vec<D> v) {
  return hn::MulAdd(hn::Set(d, factor), v, sum);
}

/// B^T: what a tile sees.
struct SeenTile {
  static constexpr int kIn = kSeen, kOut = kSeen;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void apply(D d, const V* x, V* t) {
    const V even = plus(d, x[4], -4, x[2]), odd = plus(d, x[3], -4, x[1]);
    const V near = x[4] - x[2], far = x[3] - x[1];
    t[0] = plus(d, plus(d, x[4], -5, x[2]), 4, x[0]);
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = plus(d, near, 2, far);
    t[4] = plus(d, near, -2, far);
    t[5] = plus(d, plus(d, x[5], -5, x[3]), 4, x[1]);
  }
};

/// B: gradients of what a tile sees.
struct SeenTileGrad {
  static constexpr int kIn = kSeen, kOut = kSeen;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void apply(D d, const V* t, V* x) {
    const V sum1 = t[1] + t[2], less1 = t[1] - t[2], sum2 = t[3] + t[4], less2 = t[3] - t[4];
    x[0] = times(d, 4, t[0]);
    x[1] = plus(d, times(d, 4, t[5] - less1), -2, less2);
    x[2] = plus(d, plus(d, times(d, -5, t[0]), -4, sum1), -1, sum2);
    x[3] = plus(d, plus(d, less1, 2, less2), -5, t[5]);
    x[4] = t[0] + sum1 + sum2;
    x[5] = t[5];
  }
};

/// A^T: what a tile gives.
struct MadeTile {
  static constexpr int kIn = kSeen, kOut = kMade;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void apply(D d, const V* t, V* y) {
    const V sum1 = t[1] + t[2], less1 = t[1] - t[2], sum2 = t[3] + t[4], less2 = t[3] - t[4];
    y[0] = t[0] + sum1 + sum2;
    y[1] = plus(d, less1, 2, less2);
    y[2] = plus(d, sum1, 4, sum2);
    y[3] = plus(d, less1 + t[5], 8, less2);
  }
};

/// A: gradients of what a tile gives.
struct MadeTileGrad {
  static constexpr int kIn = kMade, kOut = kSeen;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void apply(D d, const V* y, V* t) {
    const V even = y[0] + y[2], odd = y[1] + y[3];
    const V even2 = plus(d, y[0], 4, y[2]), odd2 = plus(d, y[1], 4, y[3]);
    t[0] = y[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = plus(d, even2, 2, odd2);
    t[4] = plus(d, even2, -2, odd2);
    t[5] = y[3];
  }
};

/// G: weights.
struct Filter {
  static constexpr int kIn = kFilter, kOut = kSeen;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void apply(D d, const V* g, V* t) {
    const V even = times(d, -1.f / 6, g[0] + g[2]), odd = times(d, 1.f / 6, g[1]);
    const V even2 = plus(d, times(d, 1.f / 24, g[0]), 1.f / 6, g[2]);
    const V odd2 = times(d, 1.f / 12, g[1]);
    t[0] = times(d, 0.25f, g[0]);
    t[1] = even - odd;
    t[2] = even + odd;
    t[3] = even2 + odd2;
    t[4] = even2 - odd2;
    t[5] = g[2];
  }
};

/// G^T: gradients of weights.
struct FilterGrad {
  static constexpr int kIn = kSeen, kOut = kFilter;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void apply(D d, const V* t, V* g) {
    const V sum1 = t[1] + t[2], less1 = t[1] - t[2], sum2 = t[3] + t[4], less2 = t[3] - t[4];
    g[0] = plus(d, plus(d, times(d, 0.25f, t[0]), -1.f / 6, sum1), 1.f / 24, sum2);
    g[1] = plus(d, times(d, -1.f / 6, less1), 1.f / 12, less2);
    g[2] = plus(d, plus(d, t[5], -1.f / 6, sum1), 1.f / 6, sum2);
  }
};

/// Transform T on both sides of a square: load(i, j) gives its kIn x kIn vectors, store(i, j, v)
/// takes kOut x kOut.
template <class T, class D, class Load, class Store>
HWY_INLINE void both_sides(D d, const Load& load, const Store& store) {
  using V = hn::Vec<D>;
  V middle[T::kOut][T::kIn];
#pragma GCC unroll 6
  for (int j = 0; j < T::kIn; ++j) {
    V in[T::kIn], out[T::kOut];
#pragma GCC unroll 6
    for (int i = 0; i < T::kIn; ++i) in[i] = load(i, j);
    T::apply(d, in, out);
#pragma GCC unroll 6
    for (int i = 0; i < T::kOut; ++i) middle[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < T::kOut; ++i) {
    V out[T::kOut];
    T::apply(d, middle[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < T::kOut; ++j) store(i, j, out[j]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
