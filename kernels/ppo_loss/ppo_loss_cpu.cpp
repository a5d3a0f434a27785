#include "kernels/ppo_loss/ppo_loss.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ppo_loss/ppo_loss_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/order-inl.h"
#include "kernels/policy/policy-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums over rows are kept in this many parts, row r in part r % kParts, whatever a vector's width
constexpr int64_t kParts = 16;

// the rollout's columns at the panel's rows; padding rows are invalid
struct GatheredColumns {
  HWY_ALIGN float old_log_prob[kPanelRows] = {}, advantage[kPanelRows] = {},
                  target[kPanelRows] = {}, old_value[kPanelRows] = {}, valid[kPanelRows] = {};
};

void gather(const PpoLossArgs& args, GatheredColumns& out) {
  for (int64_t r = 0; r < args.policy.rows; ++r) {
    const int64_t i = args.index[r];
    out.old_log_prob[r] = args.old_log_prob[i];
    out.advantage[r] = args.advantage[i];
    out.target[r] = args.target[i];
    out.valid[r] = args.valid[i];
    if (args.old_value) out.old_value[r] = args.old_value[i];
  }
}

// sums over rows, in parts
struct PanelSums {
  HWY_ALIGN float figure[kPpoTotal][kParts] = {};
};

// excluded categories get their floor once; the logits lie in d_logits until the gradient of each
// takes its place
template <class D>
HWY_INLINE void mask_logits(D d, PpoLossArgs& args) {
  PolicyPanel& p = args.policy;
  if (!p.mask) return;
  const int64_t width = panel_width(p), lanes = int64_t(hn::Lanes(d));
  for (int64_t k = 0; k < width; ++k)
    for (int64_t at = 0; at < p.rows; at += lanes)
      hn::Store(masked_logit(d, p, args.index, k, at), d, args.d_logits + k * p.stride + at);
  p.logits = args.d_logits, p.mask = nullptr;
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void add_to_part(D d, V x, int64_t at, float* parts) {
  float* part = parts + at % kParts;
  hn::Store(hn::Load(d, part) + x, d, part);
}

double sum_of_parts(const float* parts) {
  double sum = 0;
  for (int64_t i = 0; i < kParts; ++i) sum += double(parts[i]);
  return sum;
}

// squared error of the value and its derivative, clipped as the settings say
template <class D, class V = hn::Vec<D>>
HWY_INLINE void value_error(D d, const PpoLossSettings& s, V clip, V value, V target, V old,
                            V& error, V& slope) {
  const V two = hn::Set(d, 2.f), far = value - target;
  error = far * far, slope = two * far;
  if (!s.clips_value) return;
  const V move = value - old;
  const V near = old + smaller_of(larger_of(move, hn::Neg(clip)), clip) - target;
  const V near_error = near * near;
  const V near_slope = hn::IfThenElseZero(hn::Le(hn::Abs(move), clip), two * near);
  if (!s.value_clip_max) {
    error = near_error, slope = near_slope;
    return;
  }
  const V half = hn::Set(d, 0.5f);
  slope =
      hn::IfThenElse(hn::Gt(near_error, error), near_slope,
                     hn::IfThenElse(hn::Eq(near_error, error), half * (near_slope + slope), slope));
  error = larger_of(near_error, error);
}

// loss of rows [at, at + lanes): figures, d_value, and the derivatives the logits need
template <class D, class V = hn::Vec<D>>
HWY_INLINE void row_loss(D d, const PpoLossArgs& args, const GatheredColumns& columns, int64_t at,
                         PanelSums& sums, V& d_log_prob, V& d_entropy) {
  const PpoLossScalars& s = *args.scalars;
  const V one = hn::Set(d, 1.f), clip = hn::Set(d, s.clip);
  const V valid = hn::Load(d, columns.valid + at);
  const auto counts = hn::Ne(valid, hn::Zero(d));
  const V weight = valid * hn::Set(d, s.inverse_count);

  V log_prob = valid, entropy = valid;
  action_log_prob(d, args.policy, {args.action_i32, args.action_f32, args.index}, at, log_prob,
                  entropy);
  const V log_ratio = log_prob - hn::Load(d, columns.old_log_prob + at);
  const V ratio = exp_vector(d, log_ratio);
  const V advantage = (hn::Load(d, columns.advantage + at) - hn::Set(d, s.advantage_mean)) * valid *
                      hn::Set(d, s.advantage_scale);
  const V low = one - clip, high = one + clip;
  const auto inside = hn::And(hn::Ge(ratio, low), hn::Le(ratio, high));
  const V free = ratio * advantage, clipped = smaller_of(larger_of(ratio, low), high) * advantage;
  // where the clipped side is the smaller one, or the ratio is clipped, it passes nothing on
  const V share = hn::IfThenElse(
      hn::Gt(free, clipped), hn::Zero(d),
      hn::IfThenElse(hn::AndNot(inside, hn::Eq(free, clipped)), hn::Set(d, 0.5f), one));
  d_log_prob = hn::IfThenElseZero(counts, hn::Neg(weight * advantage * share) * ratio);
  d_entropy = hn::Neg(weight * hn::Set(d, s.entropy_coef));

  V error = valid, slope = valid;
  value_error(d, args.settings, hn::Set(d, s.value_clip), hn::Load(d, args.value + at),
              hn::Load(d, columns.target + at), hn::Load(d, columns.old_value + at), error, slope);
  hn::Store(hn::IfThenElseZero(counts, hn::Set(d, args.settings.value_coef) * weight * slope), d,
            args.d_value + at);

  const V deviation = hn::Abs(ratio - one);
  const auto add = [&](int figure, V x) {
    add_to_part(d, hn::IfThenElseZero(counts, x * weight), at, sums.figure[figure]);
  };
  add(kPpoPolicy, hn::Neg(smaller_of(clipped, free)));  // NaN is the second operand's
  add(kPpoValue, error);
  add(kPpoEntropy, entropy);
  add(kPpoApproxKl, ratio - one - log_ratio);
  add(kPpoClipFraction, hn::IfThenElseZero(hn::Gt(deviation, clip), one));
  add(kPpoRatioDeviation, deviation);
}

// d_logits of rows [at, at + lanes), categorical
template <class D, class V = hn::Vec<D>>
HWY_INLINE void heads_gradient(D d, const PpoLossArgs& args, int64_t at, V valid, V d_log_prob,
                               V d_entropy) {
  const hn::RebindToSigned<D> integers;
  const PolicyPanel& p = args.policy;
  const V one = hn::Set(d, 1.f);
  const auto counts = hn::Ne(valid, hn::Zero(d));
  for (int64_t h = 0, begin = 0; h < p.head_count; begin += p.heads[h++]) {
    V largest = one, log_total = one, entropy = one;
    head_softmax(d, p, args.index, begin, p.heads[h], at, largest, log_total, entropy);
    const auto action = action_column(integers, p, args.action_i32, args.index, h, at);
    for (int64_t k = 0; k < p.heads[h]; ++k) {
      const V logit = masked_logit(d, p, args.index, begin + k, at);
      const V log_prob = (logit - largest) - log_total, prob = exp_vector(d, log_prob);
      const V hit = hn::IfThenElseZero(is_category(d, action, k), one);
      V g = d_log_prob * (hit - prob) - d_entropy * (prob * (log_prob + entropy));
      g = hn::IfThenZeroElse(hn::Eq(logit, hn::Set(d, kExcluded)), g);
      hn::Store(hn::IfThenElseZero(counts, g), d, args.d_logits + (begin + k) * p.stride + at);
    }
  }
}

// d_logits and d_log_std of rows [at, at + lanes), Gaussian
template <class D, class V = hn::Vec<D>>
HWY_INLINE void gaussian_gradient(D d, const PpoLossArgs& args, int64_t i, int64_t at, V valid,
                                  V d_log_prob, V d_entropy, float* parts) {
  const PolicyPanel& p = args.policy;
  const auto counts = hn::Ne(valid, hn::Zero(d));
  const V log_std = hn::Set(d, p.log_std[i]);
  const V action = action_column(d, p, args.action_f32, args.index, i, at);
  V z = valid;
  gaussian_log_prob(d, action, hn::Load(d, p.logits + i * p.stride + at), log_std, valid, z);
  const V d_mean = d_log_prob * z * exp_vector(d, hn::Neg(log_std));
  hn::Store(hn::IfThenElseZero(counts, d_mean), d, args.d_logits + i * p.stride + at);
  const V d_log_std = d_log_prob * (z * z - hn::Set(d, 1.f)) + d_entropy;
  add_to_part(d, hn::IfThenElseZero(counts, d_log_std), at, parts);
}

void panel_loss(PpoLossArgs args) {
  const hn::ScalableTag<float> d;
  const PolicyPanel& p = args.policy;
  mask_logits(d, args);
  const int64_t lanes = int64_t(hn::Lanes(d));
  const int64_t used = (p.rows + lanes - 1) / lanes * lanes;
  GatheredColumns columns;
  gather(args, columns);
  PanelSums sums;
  HWY_ALIGN float row_d_log_prob[kPanelRows], row_d_entropy[kPanelRows];
  for (int64_t at = 0; at < used; at += lanes) {
    auto d_log_prob = hn::Zero(d), d_entropy = hn::Zero(d);
    row_loss(d, args, columns, at, sums, d_log_prob, d_entropy);
    heads_gradient(d, args, at, hn::Load(d, columns.valid + at), d_log_prob, d_entropy);
    hn::Store(d_log_prob, d, row_d_log_prob + at), hn::Store(d_entropy, d, row_d_entropy + at);
  }
  for (int64_t i = 0; p.head_count == 0 && i < p.dims; ++i) {
    HWY_ALIGN float parts[kParts] = {};
    for (int64_t at = 0; at < used; at += lanes)
      gaussian_gradient(d, args, i, at, hn::Load(d, columns.valid + at),
                        hn::Load(d, row_d_log_prob + at), hn::Load(d, row_d_entropy + at), parts);
    args.d_log_std[i] += float(sum_of_parts(parts));
  }
  // padding that no vector of rows has reached
  for (int64_t f = 0; f < panel_width(p); ++f)
    std::fill(args.d_logits + f * p.stride + used, args.d_logits + (f + 1) * p.stride, 0.f);
  std::fill(args.d_value + used, args.d_value + p.stride, 0.f);

  double sum[kPpoFigures];
  for (int f = 0; f < kPpoTotal; ++f) sum[f] = sum_of_parts(sums.figure[f]);
  sum[kPpoTotal] = sum[kPpoPolicy] + double(args.settings.value_coef) * sum[kPpoValue] -
                   double(args.scalars->entropy_coef) * sum[kPpoEntropy];
  for (int f = 0; f < kPpoFigures; ++f) args.figures[f] += sum[f];
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(panel_loss);

void ppo_loss_cpu(const PpoLossArgs& args) { HWY_DYNAMIC_DISPATCH(panel_loss)(args); }

}  // namespace maglev
#endif
