#include "kernels/symexp_bins/symexp_bins.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/symexp_bins/symexp_bins_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/order-inl.h"
#include "base/simd/run-inl.h"
#include "base/simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowSum = PartedSum<float, 16>;

// exponentials of a row's logits less the largest, behind some zeros: a vector of the lower half,
// read backwards, may begin before the first bin
struct Exponentials {
  static constexpr int64_t kBefore = 16;
  HWY_ALIGN float memory[kBefore + kMostSymexpBins + 1] = {};
  float *e = memory + kBefore, largest = 0, total = 0;

  HWY_INLINE void take(const float* logits, const float* bias, int64_t count) {
    const RowSum::D d;
    auto most = hn::Set(d, logits[0] + bias[0]);
    for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
      const auto v = part.load(logits + i) + part.load(bias + i);
      part.store(v, e + i);
    });
    for (int64_t i = 0; i + RowSum::kLanes <= count; i += RowSum::kLanes)
      most = larger_of(most, hn::LoadU(d, e + i));
    if (count >= RowSum::kLanes) most = larger_of(most, hn::LoadU(d, e + count - RowSum::kLanes));
    else
      for (int64_t i = 0; i < count; ++i) most = larger_of(most, hn::Set(d, e[i]));
    largest = hn::GetLane(hn::MaxOfLanes(d, most));
    const auto less = hn::Set(d, largest);
    RowSum sum;
    for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
      part.store(exp_vector(d, part.load(e + i) - less), e + i);
      // beyond the row there are zeros again
      auto& to = sum.of(int(i / RowSum::kLanes));
      to = to + part.load(e + i);
    });
    total = sum.fold();
  }
};

void mean_rows(const SymexpMean& a) {
  const RowSum::D d;
  const int64_t count = a.bins.count, half = count / 2;
  Exponentials row;
  for (int64_t r = 0; r < a.rows; ++r) {
    row.take(a.logits + r * count, a.bias, count);
    RowSum sum;
    for_each_vector(d, half, [&](int64_t i, auto part) HWY_ATTR {
      const int64_t above = half + 1 + i;
      const auto below = hn::Reverse(d, hn::LoadU(d, row.e + half - i - RowSum::kLanes));
      auto& to = sum.of(int(i / RowSum::kLanes));
      to = hn::MulAdd(part.load(row.e + above) - below, part.load(a.bins.value + above), to);
    });
    a.mean[r] = sum.fold() / row.total;
  }
}

void loss_rows(const SymexpLoss& a) {
  const RowSum::D d;
  const int64_t count = a.bins.count;
  Exponentials row;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* logits = a.logits + r * count;
    float* d_logits = a.d_logits + r * count;
    row.take(logits, a.bias, count);
    const float weight = a.factor * (a.weight ? a.weight[r] : 1.f);
    const float log_total = row.largest + std::log(row.total);
    // first the codes, then what the probabilities pull
    struct Code {
      TwoBins bins;
      float weight;
    };
    Code codes[2] = {{bins_beside(a.bins, a.target[r]), 1.f}, {{0, 0}, 0.f}};
    if (a.second) codes[1] = {bins_beside(a.bins, a.second[r]), a.second_weight};
    float loss = 0;
    for (const Code& code : codes) {
      const int64_t k = code.bins.below;
      const float below = logits[k] + a.bias[k], above = logits[k + 1] + a.bias[k + 1];
      loss += code.weight * (log_total - below - code.bins.share * (above - below));
    }
    a.loss[r] = loss;
    const auto pull = hn::Set(d, weight * (1.f + codes[1].weight) / row.total);
    for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
      part.store(part.load(row.e + i) * pull, d_logits + i);
    });
    for (const Code& code : codes) {
      d_logits[code.bins.below] -= weight * code.weight * (1.f - code.bins.share);
      d_logits[code.bins.below + 1] -= weight * code.weight * code.bins.share;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(mean_rows);
HWY_EXPORT(loss_rows);

void symexp_mean_cpu(const SymexpMean& args) { HWY_DYNAMIC_DISPATCH(mean_rows)(args); }
void symexp_loss_cpu(const SymexpLoss& args) { HWY_DYNAMIC_DISPATCH(loss_rows)(args); }

}  // namespace maglev
#endif
