#include "kernels/policy/distribution_op.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "kernels/philox/philox_op.h"

namespace maglev {
namespace {

// excluded categories get a finite floor: their probability is exactly 0 in f32 and no gradient is
// NaN
constexpr double kExcluded = -1e8;

at::Tensor masked(const DistParams& p) {
  return p.mask.defined() ? at::where(p.mask == 0, kExcluded, p.logits) : p.logits;
}

at::Tensor gaussian_log_prob(const DistParams& p, const at::Tensor& action) {
  auto z = (action - p.logits) * at::exp(-p.log_std);
  return (z * z * -0.5 - p.log_std - 0.5 * std::log(2 * M_PI)).sum(1);
}

}  // namespace

at::Tensor sample(const ActionSpec& spec, const DistParams& p, ActMode mode, const ActKey& key,
                  int64_t first_row, at::Tensor& action) {
  PhiloxFill fill{.seed = key.seed,
                  .purpose = key.purpose,
                  .first_row = first_row,
                  .step = key.step,
                  .rows = 0,
                  .width = 0,
                  .base = key.base,
                  .index = key.rows};
  if (!spec.discrete()) {
    if (mode == ActMode::mean) {
      action.copy_(p.logits);
    } else {
      auto noise = at::empty(p.logits.sizes(), p.logits.options());
      philox_normal_(noise, fill);
      action.copy_(p.logits + at::exp(p.log_std) * key.temperature * noise);
    }
    return gaussian_log_prob(p, action);
  }
  auto logits = masked(p);
  at::Tensor noise;
  if (mode == ActMode::sample) {
    // the largest of logits plus Gumbel noise is a draw from their softmax; of logits over a
    // temperature it is where the noise is so many times as large
    noise = at::empty(logits.sizes(), logits.options());
    philox_uniform_(noise, fill);
    noise.log_().neg_().log_().mul_(-key.temperature).add_(logits);
  } else {
    noise = logits;
  }
  at::Tensor total;
  int64_t begin = 0;
  for (size_t h = 0; h < spec.heads.size(); ++h) {
    const int64_t K = spec.heads[h];
    auto chosen = noise.narrow(1, begin, K).argmax(1, /*keepdim=*/true);
    action.narrow(1, int64_t(h), 1).copy_(chosen);
    auto log_prob = at::log_softmax(logits.narrow(1, begin, K), 1).gather(1, chosen).squeeze(1);
    total = total.defined() ? total + log_prob : log_prob;
    begin += K;
  }
  return total;
}

at::Tensor most_likely(const ActionSpec& spec, const DistParams& p) {
  if (!spec.discrete()) return p.logits;
  const auto logits = masked(p);
  std::vector<at::Tensor> chosen;
  int64_t begin = 0;
  for (int64_t K : spec.heads) {
    chosen.push_back(logits.narrow(1, begin, K).argmax(1, /*keepdim=*/true));
    begin += K;
  }
  return at::cat(chosen, 1).to(at::kInt);
}

LogProb log_prob(const ActionSpec& spec, const DistParams& p, const at::Tensor& action) {
  if (!spec.discrete()) {
    auto entropy = (p.log_std + 0.5 + 0.5 * std::log(2 * M_PI)).sum();
    return {gaussian_log_prob(p, action), entropy.expand({p.logits.size(0)})};
  }
  auto logits = masked(p);
  LogProb out;
  int64_t begin = 0;
  for (size_t h = 0; h < spec.heads.size(); ++h) {
    const int64_t K = spec.heads[h];
    auto all = at::log_softmax(logits.narrow(1, begin, K), 1);
    auto one = all.gather(1, action.narrow(1, int64_t(h), 1).to(at::kLong)).squeeze(1);
    auto entropy = -(all.exp() * all).sum(1);
    out.log_prob = out.log_prob.defined() ? out.log_prob + one : one;
    out.entropy = out.entropy.defined() ? out.entropy + entropy : entropy;
    begin += K;
  }
  return out;
}

at::Tensor category_log_probs(const ActionSpec& spec, const DistParams& p) {
  const auto logits = masked(p);
  std::vector<at::Tensor> heads;
  int64_t begin = 0;
  for (int64_t K : spec.heads) {
    heads.push_back(at::log_softmax(logits.narrow(1, begin, K), 1));
    begin += K;
  }
  const auto all = at::cat(heads, 1);
  return p.mask.defined() ? at::where(p.mask == 0, -std::numeric_limits<double>::infinity(), all)
                          : all;
}

}  // namespace maglev
