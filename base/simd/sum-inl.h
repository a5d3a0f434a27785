// Sums across the lanes of vectors that give the same bits whatever a vector's width.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_BASE_SIMD_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_SUM_INL_H_
#undef MAGLEV_BASE_SIMD_SUM_INL_H_
#else
#define MAGLEV_BASE_SIMD_SUM_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The lanes' sum, halves folded onto each other: (i, i + n / 2), (i, i + n / 4), ...
template <class D>
HWY_INLINE hn::TFromD<D> fold_lanes(D, hn::Vec<D> v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return fold_lanes(half, hn::LowerHalf(half, v) + hn::UpperHalf(half, v));
  }
#endif
  return hn::GetLane(v);
}

#if HWY_TARGET != HWY_SCALAR
/// A vector's halves folded onto each other until four lanes are left, as fold_lanes begins.
template <class D>
HWY_INLINE auto fold_to_four(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return fold_to_four(half, hn::LowerHalf(half, v) + hn::UpperHalf(half, v));
  } else {
    return v;
  }
}
#endif

/// A sum kept in kParts parts, element i in part i % kParts, in as many vectors as they take.
template <class T, int kParts>
struct PartedSum {
  using D = hn::CappedTag<T, kParts>;
  static constexpr int kVectors = kParts / int(hn::MaxLanes(D()));
  static constexpr int64_t kLanes = int64_t(hn::MaxLanes(D()));

  hn::Vec<D> part[kVectors];

  HWY_INLINE PartedSum() {
    for (auto& p : part) p = hn::Zero(D());
  }
  /// Where vector v of a run that begins at part 0 is added.
  HWY_INLINE hn::Vec<D>& of(int v) { return part[v % kVectors]; }
  /// x [count], aligned; count is a multiple of kParts.
  HWY_INLINE void add(const T* x, int64_t count) {
    const D d;
    for (int64_t i = 0; i < count; i += kParts)
      for (int v = 0; v < kVectors; ++v) part[v] = part[v] + hn::Load(d, x + i + v * kLanes);
  }
  /// The products of a and b [count], likewise.
  HWY_INLINE void add_products(const T* a, const T* b, int64_t count) {
    const D d;
    for (int64_t i = 0; i < count; i += kParts)
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = i + v * kLanes;
        part[v] = hn::MulAdd(hn::Load(d, a + at), hn::Load(d, b + at), part[v]);
      }
  }
  /// Of all parts, halves folded onto each other; leaves them changed.
  HWY_INLINE T fold() {
    fold_vectors();
    return fold_lanes(D(), part[0]);
  }
  HWY_INLINE void fold_vectors() {
    for (int half = kVectors / 2; half > 0; half /= 2)
      for (int v = 0; v < half; ++v) part[v] = part[v] + part[v + half];
  }
};

/// What fold() gives of up to four sums, added to to[0 .. kCount - 1].
template <int kParts, int kCount>
HWY_INLINE void add_folded(PartedSum<float, kParts> (&sum)[kCount], float* to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kCount == 4) {
    using D = typename PartedSum<float, kParts>::D;
    const hn::FixedTag<float, 4> d;
    for (auto& s : sum) s.fold_vectors();
    const auto a = fold_to_four(D(), sum[0].part[0]), b = fold_to_four(D(), sum[1].part[0]);
    const auto e = fold_to_four(D(), sum[2].part[0]), f = fold_to_four(D(), sum[3].part[0]);
    // lanes (0, 2) and (1, 3) of two sums side by side, then those of four
    const auto ab = hn::ConcatLowerLower(d, b, a) + hn::ConcatUpperUpper(d, b, a);
    const auto ef = hn::ConcatLowerLower(d, f, e) + hn::ConcatUpperUpper(d, f, e);
    const auto all = hn::ConcatEven(d, ef, ab) + hn::ConcatOdd(d, ef, ab);
    hn::StoreU(hn::LoadU(d, to) + all, d, to);
    return;
  }
#endif
  for (int i = 0; i < kCount; ++i) to[i] += sum[i].fold();
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
