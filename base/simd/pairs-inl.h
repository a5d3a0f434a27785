// Words of two bfloat16 (base/simd/pairs.h) made from f32, rounded to nearest even by integer
// arithmetic; what is rounded is finite.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_BASE_SIMD_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_PAIRS_INL_H_
#undef MAGLEV_BASE_SIMD_PAIRS_INL_H_
#else
#define MAGLEV_BASE_SIMD_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x rounded; the upper halves are the bfloat16, what is below them is left over.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> bfloat16_rounded(D, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, x);
  const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  return bits + hn::Set(words, 0x7FFFu) + last;
}

/// Lane by lane a word of `first` and `second`.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> bfloat16_pair(D d, hn::Vec<D> first,
                                                          hn::Vec<D> second) {
  const hn::RebindToUnsigned<D> words;
  return hn::Or(hn::ShiftRight<16>(bfloat16_rounded(d, first)),
                hn::And(bfloat16_rounded(d, second), hn::Set(words, 0xFFFF0000u)));
}

#if HWY_TARGET != HWY_SCALAR
/// Twice as many neighbours as a vector has lanes, a word every two of them.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> bfloat16_neighbours(D d, hn::Vec<D> low,
                                                                hn::Vec<D> high) {
  return bfloat16_pair(d, hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
