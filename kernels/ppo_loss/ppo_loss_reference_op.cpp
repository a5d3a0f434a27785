#include "kernels/ppo_loss/ppo_loss_reference_op.h"

#include <ATen/ATen.h>

#include "kernels/policy/distribution_op.h"

namespace maglev {

PpoLossTerms ppo_loss_reference(const ActionSpec& spec, const at::Tensor& logits,
                                const at::Tensor& log_std, const at::Tensor& value,
                                const PpoLossRows& rows, const PpoCoefficients& c) {
  const auto count = rows.valid.sum().clamp_min(1);
  const auto mean = [&](const at::Tensor& x) { return (x * rows.valid).sum() / count; };
  PpoLossTerms loss;

  // how much likelier the actions have become
  const auto now = log_prob(spec, {logits, log_std, rows.mask}, rows.action);
  const auto log_ratio = now.log_prob - rows.old_log_prob, ratio = log_ratio.exp();

  // the clipped surrogate: nothing is gained by moving the ratio further than clip from 1
  const auto near = at::clamp(ratio, 1 - c.clip, 1 + c.clip);
  loss.policy = -mean(at::minimum(ratio * rows.advantage, near * rows.advantage));

  // squared errors of the values, which may be held near the rollout's
  auto error = (value - rows.target).square();
  if (c.settings.clips_value) {
    const auto held =
        rows.old_value + at::clamp(value - rows.old_value, -c.value_clip, c.value_clip);
    const auto held_error = (held - rows.target).square();
    error = c.settings.value_clip_max ? at::maximum(held_error, error) : held_error;
  }
  loss.value = mean(error);

  // a policy that still explores is worth something
  loss.entropy = mean(now.entropy);
  loss.total = loss.policy + c.settings.value_coef * loss.value - c.entropy_coef * loss.entropy;

  // how far the policy moved
  const auto deviation = at::abs(ratio - 1);
  loss.approx_kl = mean(ratio - 1 - log_ratio);
  loss.clip_fraction = mean((deviation > c.clip).to(ratio.dtype()));
  loss.ratio_deviation = mean(deviation);
  return loss;
}

at::Tensor PpoLossTerms::figures() const {
  return at::stack({policy, value, entropy, approx_kl, clip_fraction, ratio_deviation, total});
}

}  // namespace maglev
