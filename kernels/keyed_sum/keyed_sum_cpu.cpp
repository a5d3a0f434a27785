#include "kernels/keyed_sum/keyed_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/keyed_sum/keyed_sum_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using KeyedTag = hn::CappedTag<float, 16>;

void keyed_sum(const KeyedSum& a) {
  const KeyedTag d;
  for (int64_t i = 0; i < a.count; ++i) {
    if (uint32_t(a.key[i]) >= uint64_t(a.keys)) continue;
    const float* from = a.rows + (a.source ? a.source[i] : i) * a.width;
    float* to = a.out + a.key[i] * a.width;
    const auto by = hn::Set(d, a.weight ? a.weight[i] : 1.f);
    for_each_vector(d, a.width, [&](int64_t k, auto part) HWY_ATTR {
      part.store(hn::MulAdd(by, part.load(from + k), part.load(to + k)), to + k);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(keyed_sum);

void keyed_sum_cpu(const KeyedSum& args) { HWY_DYNAMIC_DISPATCH(keyed_sum)(args); }

}  // namespace maglev
#endif
