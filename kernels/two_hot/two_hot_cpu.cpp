#include "kernels/two_hot/two_hot.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/two_hot/two_hot_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/order-inl.h"
#include "base/simd/panel.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> largest_logit(D d, const float* logits, int64_t bins, int64_t stride) {
  auto largest = hn::Load(d, logits);
  for (int64_t k = 1; k < bins; ++k) largest = larger_of(largest, hn::Load(d, logits + k * stride));
  return largest;
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V position(D d, const TwoHotBins& bins, V x) {
  const V low = hn::Set(d, bins.low), high = hn::Set(d, bins.high);
  const V symlog = hn::CopySignToAbs(log_vector(d, hn::Set(d, 1.f) + hn::Abs(x)), x);
  return (smaller_of(larger_of(symlog, low), high) - low) / hn::Set(d, bins.width());
}

// lanes of rows, the others become 0
template <class D>
HWY_INLINE auto row_mask(D d, int64_t at, int64_t rows) {
  return hn::FirstN(d, size_t(std::clamp<int64_t>(rows - at, 0, int64_t(hn::Lanes(d)))));
}

void loss(const TwoHotLoss& args) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), bins = args.bins.count, stride = args.stride;
  const auto one = hn::Set(d, 1.f), weight = hn::Set(d, args.weight);
  // padding columns have a target too, of 0: what becomes of it is not kept
  HWY_ALIGN float target[kPanelRows] = {}, row_loss[kPanelRows] = {};
  std::copy_n(args.target, args.rows, target);
  for (int64_t at = 0; at < stride; at += lanes) {
    float* logits = args.logits + at;
    const auto where = position(d, args.bins, hn::Load(d, target + at));
    // the two-hot code's weight of bin k
    const auto code = [&](int64_t k) HWY_ATTR {
      return larger_of(one - hn::Abs(where - hn::Set(d, float(k))), hn::Zero(d));
    };
    // cross-entropy = log(sum of exp) - sum of code * logit; numerators wait in the logits' place
    const auto largest = largest_logit(d, logits, bins, stride);
    auto total = hn::Zero(d), coded = hn::Zero(d);
    for (int64_t k = 0; k < bins; ++k) {
      const auto logit = hn::Load(d, logits + k * stride) - largest;
      coded = hn::MulAdd(code(k), logit, coded);
      const auto e = exp_vector(d, logit);
      total = total + e;
      hn::Store(e, d, logits + k * stride);
    }
    hn::Store(log_vector(d, total) - coded, d, row_loss + at);
    // weight * (probability - code)
    const auto inverse = one / total;
    const auto counts = row_mask(d, at, args.rows);
    for (int64_t k = 0; k < bins; ++k) {
      const auto e = hn::Load(d, logits + k * stride);
      hn::Store(hn::IfThenElseZero(counts, weight * hn::MulSub(e, inverse, code(k))), d,
                logits + k * stride);
    }
  }
  std::copy_n(row_loss, args.rows, args.loss);
}

void value_grad(const TwoHotValue& args) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), bins = args.bins.count, stride = args.stride;
  const auto one = hn::Set(d, 1.f), width = hn::Set(d, args.bins.width());
  const auto low = hn::Set(d, args.bins.low);
  const auto bin = [&](int64_t k) HWY_ATTR { return hn::MulAdd(hn::Set(d, float(k)), width, low); };
  for (int64_t at = 0; at < stride; at += lanes) {
    float* logits = args.logits + at;
    const auto largest = largest_logit(d, logits, bins, stride);
    // the mean over the bins in symlog space
    auto total = hn::Zero(d), weighted = hn::Zero(d);
    for (int64_t k = 0; k < bins; ++k) {
      const auto e = exp_vector(d, hn::Load(d, logits + k * stride) - largest);
      total = total + e;
      weighted = hn::MulAdd(e, bin(k), weighted);
      hn::Store(e, d, logits + k * stride);
    }
    const auto inverse = one / total, mean = weighted * inverse;
    // symexp(x) = sign(x) (exp|x| - 1), its derivative exp|x|
    const auto power = exp_vector(d, hn::Abs(mean));
    hn::Store(hn::CopySign(power - one, mean), d, args.value + at);
    // the slope of a logit: probability * (bin - mean)
    const auto factor = hn::IfThenElseZero(row_mask(d, at, args.rows), power * inverse);
    for (int64_t k = 0; k < bins; ++k)
      hn::Store(factor * hn::Load(d, logits + k * stride) * (bin(k) - mean), d,
                logits + k * stride);
  }
}

void inverse(const TwoHotInverse& args) {
  // no vector reaches beyond the next multiple of 16 columns
  const hn::CappedTag<float, 16> d;
  const int64_t bins = args.bins.count, stride = args.stride;
  const auto one = hn::Set(d, 1.f), width = hn::Set(d, args.bins.width());
  for (int64_t at = 0; at < (args.rows + 15) / 16 * 16; at += int64_t(hn::Lanes(d))) {
    const float* logits = args.logits + at;
    const auto largest = largest_logit(d, logits, bins, stride);
    auto total = hn::Zero(d), weighted = hn::Zero(d);
    for (int64_t k = 0; k < bins; ++k) {
      const auto e = exp_vector(d, hn::Load(d, logits + k * stride) - largest);
      const auto bin = hn::MulAdd(hn::Set(d, float(k)), width, hn::Set(d, args.bins.low));
      total = total + e;
      weighted = hn::MulAdd(e, bin, weighted);
    }
    const auto mean = weighted / total;
    hn::Store(hn::CopySign(exp_vector(d, hn::Abs(mean)) - one, mean), d, args.value + at);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(loss);
HWY_EXPORT(value_grad);
HWY_EXPORT(inverse);

void two_hot_loss_cpu(const TwoHotLoss& args) { HWY_DYNAMIC_DISPATCH(loss)(args); }
void two_hot_value_grad_cpu(const TwoHotValue& args) { HWY_DYNAMIC_DISPATCH(value_grad)(args); }
void two_hot_inverse_cpu(const TwoHotInverse& args) { HWY_DYNAMIC_DISPATCH(inverse)(args); }

}  // namespace maglev
#endif
