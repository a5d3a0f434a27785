#include "base/simd/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/simd/peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// with the two factors they fit 16 registers, and hide 4 cycles of latency at 2 a cycle
constexpr int kSums = 12;

double multiply_adds(int64_t rounds) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const V factor = hn::Set(d, 0.5f), step = hn::Set(d, 1.f);
  V sum[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum[i] = hn::Set(d, float(i));
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = hn::MulAdd(sum[i], factor, step);
  // what came of it counts as used
  float last[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) last[i] = hn::GetLane(sum[i]);
  asm volatile("" : : "r"(last) : "memory");
  return 2. * double(rounds) * kSums * double(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(multiply_adds);

double spend_multiply_adds(int64_t rounds) { return HWY_DYNAMIC_DISPATCH(multiply_adds)(rounds); }

}  // namespace maglev
#endif
