#include "kernels/popart/popart.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/popart/popart_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// element i goes to partial sum i % 16, whatever the vectors' width
constexpr int64_t kPartials = 16;

ShiftedSums sum_returns(const float* returns, const float* weight, int64_t M, double mean) {
  const hn::CappedTag<double, kPartials> d;
  const hn::Rebind<float, decltype(d)> half;
  const int64_t lanes = int64_t(hn::Lanes(d));
  HWY_ALIGN double total[kPartials] = {}, first[kPartials] = {}, second[kPartials] = {};
  int64_t i = 0;
  for (; i + kPartials <= M; i += kPartials)
    for (int64_t k = 0; k < kPartials; k += lanes) {
      const auto x = hn::PromoteTo(d, hn::LoadU(half, returns + i + k)) - hn::Set(d, mean);
      const auto w = hn::PromoteTo(d, hn::LoadU(half, weight + i + k)), weighted = w * x;
      hn::Store(hn::Load(d, total + k) + w, d, total + k);
      hn::Store(hn::Load(d, first + k) + weighted, d, first + k);
      hn::Store(hn::Load(d, second + k) + weighted * x, d, second + k);
    }
  ShiftedSums sums{};
  for (int64_t k = 0; k < kPartials; ++k) {
    ShiftedSums part{total[k], first[k], second[k]};
    if (i + k < M) add(part, returns[i + k] - mean, weight[i + k]);
    sums += part;
  }
  return sums;
}

void multiply(float* x, int64_t count, float by) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, x + i) * hn::Set(d, by), d, x + i);
  for (; i < count; ++i) x[i] *= by;
}

void popart(const PopArtArgs& a) {
  popart_scalars(a, sum_returns(a.returns, a.weight, a.M, *a.mean));
  multiply(a.head_weight, a.F, *a.scale);
  if (!a.adam_first) return;
  multiply(a.adam_first, a.F + 1, *a.scale);
  multiply(a.adam_second, a.F + 1, *a.scale * *a.scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(popart);

void popart_cpu(const PopArtArgs& args) { HWY_DYNAMIC_DISPATCH(popart)(args); }

}  // namespace maglev
#endif
