// The smaller and the larger of two float vectors, with the same bits on every processor.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_BASE_SIMD_ORDER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_ORDER_INL_H_
#undef MAGLEV_BASE_SIMD_ORDER_INL_H_
#else
#define MAGLEV_BASE_SIMD_ORDER_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x86's instructions give the second operand where either is NaN or both are zeros. Highway's Min
// and Max are these there; on ARM and in plain C++ they give the one that is a number, and a NaN
// would be gone behind them
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR

/// The smaller of two; b where either is NaN or both are zeros.
template <class V>
HWY_INLINE V smaller_of(V a, V b) {
  return hn::Min(a, b);
}
/// The larger of two; b where either is NaN or both are zeros.
template <class V>
HWY_INLINE V larger_of(V a, V b) {
  return hn::Max(a, b);
}

#else

template <class V>
HWY_INLINE V smaller_of(V a, V b) {
  return hn::IfThenElse(hn::Lt(a, b), a, b);
}
template <class V>
HWY_INLINE V larger_of(V a, V b) {
  return hn::IfThenElse(hn::Gt(a, b), a, b);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
