// Runs of any length, vector by vector: whole ones, and the rest of a run as a vector whose other
// lanes are read as 0 and not written.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_BASE_SIMD_RUN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_RUN_INL_H_
#undef MAGLEV_BASE_SIMD_RUN_INL_H_
#else
#define MAGLEV_BASE_SIMD_RUN_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
struct WholeVector {
  HWY_INLINE hn::Vec<D> load(const float* x) const { return hn::LoadU(D(), x); }
  HWY_INLINE void store(hn::Vec<D> v, float* x) const { hn::StoreU(v, D(), x); }
};
template <class D>
struct PartOfVector {
  int64_t count;
  // by way of a whole one: what lies behind the run may be another's, or nobody's
  HWY_INLINE hn::Vec<D> load(const float* x) const {
    HWY_ALIGN float whole[hn::MaxLanes(D())] = {};
    std::copy_n(x, count, whole);
    return hn::Load(D(), whole);
  }
  HWY_INLINE void store(hn::Vec<D> v, float* x) const {
    HWY_ALIGN float whole[hn::MaxLanes(D())];
    hn::Store(v, D(), whole);
    std::copy_n(whole, count, x);
  }
};

/// work(i, part) for elements i, i + 1, ... of [0, count), which part.load and part.store reach.
template <class D, class Work>
HWY_INLINE void for_each_vector(D d, int64_t count, const Work& work) {
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) work(i, WholeVector<D>{});
  if (i < count) work(i, PartOfVector<D>{count - i});
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
