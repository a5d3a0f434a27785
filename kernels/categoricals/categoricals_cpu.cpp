#include "kernels/categoricals/categoricals.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/categoricals/categoricals_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/run-inl.h"
#include "base/simd/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowSum = PartedSum<float, 16>;

// mixed probabilities [S * C] of a row's logits
void mixed_probs(const Categoricals& of, const float* logits, const float* bias, float* probs) {
  const RowSum::D d;
  const int64_t C = of.C, count = of.S * C;
  for (int64_t k = 0; k < count; k += C) {
    float largest = logits[k] + bias[k];
    for (int64_t c = 1; c < C; ++c) largest = std::max(largest, logits[k + c] + bias[k + c]);
    for (int64_t c = 0; c < C; ++c) probs[k + c] = logits[k + c] + bias[k + c] - largest;
  }
  // small categoricals fill vectors together
  for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
    part.store(exp_vector(d, part.load(probs + i)), probs + i);
  });
  const float floor = of.floor();
  for (int64_t k = 0; k < count; k += C) {
    float sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += probs[k + c];
    const float share = (1.f - of.unimix) / sum;
    for (int64_t c = 0; c < C; ++c) probs[k + c] = probs[k + c] * share + floor;
  }
}

// from the gradient of mixed probabilities to that of logits, in place
void back_through_mixture(const Categoricals& of, const float* probs, float* d) {
  const float floor = of.floor(), unmixed = of.unmixed();
  for (int64_t k = 0; k < of.S * of.C; k += of.C) {
    float dot = 0;
    for (int64_t c = 0; c < of.C; ++c) dot += (probs[k + c] - floor) * d[k + c];
    dot *= unmixed;
    for (int64_t c = 0; c < of.C; ++c) d[k + c] = (probs[k + c] - floor) * (d[k + c] - dot);
  }
}

void draw_rows(const CategoricalDraw& a) {
  const int64_t S = a.of.S, C = a.of.C;
  for (int64_t r = 0; r < a.of.rows; ++r) {
    float *probs = a.probs + r * S * C, *one_hot = a.one_hot + r * a.one_hot_row;
    mixed_probs(a.of, a.logits + r * S * C, a.bias, probs);
    std::fill_n(one_hot, S * C, 0.f);
    float* carried = a.carried.data ? a.carried.of(r) : nullptr;
    if (carried) std::fill_n(carried, S * C, 0.f);
    for (int64_t s = 0; s < S; ++s) {
      // how many categories end below the uniform; the last one ends where all do
      const float uniform = a.uniforms[r * S + s];
      int64_t drawn = 0;
      float end = 0;
      for (int64_t c = 0; c + 1 < C; ++c) {
        end += probs[s * C + c];
        drawn += end <= uniform;
      }
      one_hot[s * C + drawn] = 1.f;
      if (carried) carried[s * C + drawn] = a.carried.keep[r];
      if (a.category) a.category[r * S + s] = uint8_t(drawn);
    }
  }
}

void back_rows(const CategoricalBack& a) {
  const int64_t count = a.of.S * a.of.C;
  for (int64_t r = 0; r < a.of.rows; ++r) {
    float* d = a.d_logits + r * count;
    std::copy_n(a.d_one_hot + r * a.d_one_hot_row, count, d);
    if (a.d_probs)
      for (int64_t i = 0; i < count; ++i) d[i] += a.d_probs[r * count + i];
    if (a.d_carried.data)
      for (int64_t i = 0; i < count; ++i) d[i] += a.d_carried.of(r)[i] * a.d_carried.keep[r];
    back_through_mixture(a.of, a.probs + r * count, d);
  }
}

void divergence_rows(const CategoricalDivergence& a) {
  const RowSum::D d;
  const int64_t S = a.of.S, C = a.of.C, count = S * C;
  for (int64_t r = 0; r < a.of.rows; ++r) {
    const float* p = a.posterior + r * count;
    float *d_prior = a.d_prior + r * count, *d_posterior = a.d_posterior + r * count;
    // until the divergence is known the prior's probabilities wait in its gradient's place
    mixed_probs(a.of, a.prior + r * count, a.bias, d_prior);
    RowSum sum;
    for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
      const auto p_i = part.load(p + i), q_i = part.load(d_prior + i);
      const auto one = hn::Set(d, 1.f);
      const auto safe = [&](auto x) HWY_ATTR { return hn::IfThenElse(x > hn::Zero(d), x, one); };
      const auto log = log_vector(d, safe(p_i)) - log_vector(d, safe(q_i));
      part.store(log, d_posterior + i);
      auto& to = sum.of(int(i / RowSum::kLanes));
      to = hn::MulAdd(p_i, log, to);
    });
    const float divergence = sum.fold();
    a.divergence[r] = divergence;
    const float counts = divergence >= a.free ? 1.f : 0.f;
    const float to_prior = counts * a.to_prior, to_posterior = counts * a.to_posterior;
    for (int64_t i = 0; i < count; ++i) d_posterior[i] = to_posterior * (d_posterior[i] + 1.f);
    const float floor = a.of.floor(), unmixed = a.of.unmixed();
    for (int64_t k = 0; k < count; k += C) {
      float dot = 0;
      for (int64_t c = 0; c < C; ++c) dot += (d_prior[k + c] - floor) * p[k + c] / d_prior[k + c];
      dot *= unmixed;
      for (int64_t c = 0; c < C; ++c)
        d_prior[k + c] = to_prior * (d_prior[k + c] - floor) * (dot - p[k + c] / d_prior[k + c]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(draw_rows);
HWY_EXPORT(back_rows);
HWY_EXPORT(divergence_rows);

void categorical_draw_cpu(const CategoricalDraw& args) { HWY_DYNAMIC_DISPATCH(draw_rows)(args); }
void categorical_back_cpu(const CategoricalBack& args) { HWY_DYNAMIC_DISPATCH(back_rows)(args); }
void categorical_divergence_cpu(const CategoricalDivergence& args) {
  HWY_DYNAMIC_DISPATCH(divergence_rows)(args);
}

}  // namespace maglev
#endif
