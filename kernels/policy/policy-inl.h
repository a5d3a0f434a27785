// Log-probabilities of panels, one lane a row: what drawing, evaluating and the loss share, so that
// they agree to the bit. Each function works on rows [at, at + lanes) of its panel.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_KERNELS_POLICY_POLICY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_POLICY_POLICY_INL_H_
#undef MAGLEV_KERNELS_POLICY_POLICY_INL_H_
#else
#define MAGLEV_KERNELS_POLICY_POLICY_INL_H_
#endif

#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/order-inl.h"
#include "base/simd/panel.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// excluded categories get a finite floor: their probability is exactly 0 in f32 and no gradient is
// NaN
constexpr float kExcluded = -1e8f;
constexpr float kHalfLog2Pi = 0.918938533f;

/// Which rows allow a category. Row r's mask is row index[r] where there is an index.
template <class D>
HWY_INLINE hn::Mask<D> allowed(D d, const PolicyPanel& p, const int64_t* index, int64_t category,
                               int64_t at) {
  const hn::RebindToSigned<D> integers;
  HWY_ALIGN int32_t flag[hn::MaxLanes(D())] = {};
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t r = at; r < at + lanes && r < p.rows; ++r)
    flag[r - at] = p.mask[(index ? index[r] : r) * p.mask_width + category];
  const auto excluded = hn::Eq(hn::Load(integers, flag), hn::Zero(integers));
  return hn::RebindMask(d, hn::Not(excluded));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V masked_logit(D d, const PolicyPanel& p, const int64_t* index, int64_t category,
                          int64_t at) {
  const V logit = hn::Load(d, p.logits + category * p.stride + at);
  if (!p.mask) return logit;
  return hn::IfThenElse(allowed(d, p, index, category, at), logit, hn::Set(d, kExcluded));
}

/// Of one head, whose categories are [begin, begin + K): its largest logit, the logarithm of the
/// sum of exp(logit - largest), and its entropy. A category's log-probability is
/// (logit - largest) - log_total.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void head_softmax(D d, const PolicyPanel& p, const int64_t* index, int64_t begin,
                             int64_t K, int64_t at, V& largest, V& log_total, V& entropy) {
  largest = masked_logit(d, p, index, begin, at);
  for (int64_t k = 1; k < K; ++k)
    largest = larger_of(largest, masked_logit(d, p, index, begin + k, at));
  V total = hn::Zero(d), weighted = hn::Zero(d);
  for (int64_t k = 0; k < K; ++k) {
    const V x = masked_logit(d, p, index, begin + k, at) - largest, e = exp_vector(d, x);
    total = total + e;
    weighted = hn::MulAdd(e, x, weighted);
  }
  log_total = log_vector(d, total);
  entropy = log_total - weighted / total;
}

/// Adds the log-probability of `action` in one dimension of a Gaussian. `z` is its distance from
/// the mean in deviations.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gaussian_log_prob(D d, V action, V mean, V log_std, V total, V& z) {
  z = (action - mean) * exp_vector(d, hn::Neg(log_std));
  return total + hn::NegMulAdd(hn::Set(d, 0.5f) * z, z, hn::Neg(log_std + hn::Set(d, kHalfLog2Pi)));
}

/// Given actions [*, dims] row-major: heads as int32 or dimensions as float. Row r's is row
/// index[r] where there is an index.
struct RowActions {
  const int32_t* category;
  const float* number;
  const int64_t* index;
};

/// One column of the actions of rows [at, at + lanes); 0 in padding columns.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> action_column(D d, const PolicyPanel& p, const T* actions,
                                    const int64_t* index, int64_t column, int64_t at) {
  HWY_ALIGN T value[hn::MaxLanes(D())] = {};
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t r = at; r < at + lanes && r < p.rows; ++r)
    value[r - at] = actions[(index ? index[r] : r) * p.dims + column];
  return hn::Load(d, value);
}

/// Which lanes of `action` are category k.
template <class D, class VI>
HWY_INLINE hn::Mask<D> is_category(D d, VI action, int64_t k) {
  const hn::RebindToSigned<D> integers;
  return hn::RebindMask(d, hn::Eq(action, hn::Set(integers, int32_t(k))));
}

/// Log-probability and entropy of given actions, summed over heads or dimensions.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void action_log_prob(D d, const PolicyPanel& p, const RowActions& actions, int64_t at,
                                V& log_prob, V& entropy) {
  const hn::RebindToSigned<D> integers;
  log_prob = hn::Zero(d), entropy = hn::Zero(d);
  V z = hn::Zero(d);
  for (int64_t i = 0; p.head_count == 0 && i < p.dims; ++i) {
    const V log_std = hn::Set(d, p.log_std[i]);
    const V action = action_column(d, p, actions.number, actions.index, i, at);
    log_prob = gaussian_log_prob(d, action, hn::Load(d, p.logits + i * p.stride + at), log_std,
                                 log_prob, z);
    entropy = entropy + (log_std + hn::Set(d, kHalfLog2Pi + 0.5f));
  }
  for (int64_t h = 0, begin = 0; h < p.head_count; begin += p.heads[h++]) {
    V largest = log_prob, log_total = log_prob, head_entropy = log_prob, chosen = hn::Zero(d);
    head_softmax(d, p, actions.index, begin, p.heads[h], at, largest, log_total, head_entropy);
    const auto action = action_column(integers, p, actions.category, actions.index, h, at);
    for (int64_t k = 0; k < p.heads[h]; ++k)
      chosen = hn::IfThenElse(is_category(d, action, k),
                              masked_logit(d, p, actions.index, begin + k, at), chosen);
    log_prob = log_prob + ((chosen - largest) - log_total);
    entropy = entropy + head_entropy;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
