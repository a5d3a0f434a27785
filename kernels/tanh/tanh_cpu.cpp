#include "kernels/tanh/tanh.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tanh/tanh_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/tanh-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
