#include "engine/play/quantiliser.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "kernels/policy/distribution_op.h"

namespace maglev {
namespace {

std::string name_of_share(double share) { return printed("quantiliser %g", share); }

}  // namespace

at::Tensor quantilised(const at::Tensor& base, const at::Tensor& preference, double share) {
  const auto order = preference.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/true);
  const auto mass = base.exp().gather(1, order);
  const auto before = mass.cumsum(1) - mass;
  const auto kept = at::minimum((share - before).clamp_min(0), mass);
  return at::empty_like(mass).scatter_(1, order, kept / kept.sum(1, /*keepdim=*/true));
}

Quantiliser::Quantiliser(Policy& optimised, Policy& base, double share, ActMode mode,
                         const EnvSpec& spec)
    : Player(name_of_share(share)),
      optimised_(&optimised),
      base_(&base),
      share_(share),
      mode_(mode),
      action_(spec.action) {
  if (!(share > 0 && share <= 1))
    throw Error("[player] a quantiliser keeps a share above 0 and at most 1, got " +
                std::to_string(share));
  if (!action_.discrete() || action_.heads.size() != 1)
    throw Error(
        "[player] a quantiliser orders the actions of one choice among categories; this "
        "environment's are " +
        (action_.discrete() ? std::to_string(action_.heads.size()) + " choices at once"
                            : std::string("numbers")));
}

void Quantiliser::act(TimeStep& step, Carry&, const ActKey& key) {
  const at::Tensor base = base_->log_probs(step), preference = optimised_->log_probs(step);
  if (!base.defined() || !preference.defined())
    throw Error(
        "[player] a quantiliser needs policies that say how likely each action is, as PPO's do");
  const auto kept = quantilised(base, preference, share_);
  sample(action_, {kept.log(), {}, kept > 0}, mode_, key, step.first, step.action);
}

}  // namespace maglev
