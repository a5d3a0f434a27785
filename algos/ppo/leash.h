#pragma once
// A leash to the policy a run began with: rewards less what the distance from it costs,
//   r(s, a) - coefficient * (log pi(a|s) - log pi_0(a|s)),
// whose mean over actions is the KL divergence from pi_0 (Ziegler et al., "Fine-tuning language
// models from human preferences", 2019; Stiennon et al., 2020). It stands between collecting and
// learning, so learners know nothing of it. The price is on rewards, not on the loss: it also
// counts where an action leads.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "algos/ppo/options.h"
#include "algos/ppo/policy.h"
#include "engine/algo/algorithm.h"

namespace maglev::ppo {

class Leash {
 public:
  /// pi_0 has the networks of `options` as they are initialised from the run's seed.
  Leash(const Options& options, const AlgoContext& context);

  /// pi_0 becomes `policy` as it is now: the run began with another one's networks.
  void hold(const PpoPolicy& policy);
  /// `batch` with the rewards above in a column of their own; steps that only reset keep theirs.
  /// Figures go to `metrics`.
  const Batch& applied(const Batch& batch, Metrics& metrics);
  void visit_state(StateVisitor& visitor) { base_.visit_state(visitor); }

 private:
  /// Of all rows' actions under pi_0, into drift_.
  void find_base_log_probs(const Batch& batch);

  const double coefficient_;
  const AlgoContext context_;
  PpoPolicy base_;
  Batch leashed_;
  at::Tensor reward_, drift_, valid_;  ///< [T, rows] f32
  int64_t metric_ = -1;
};

}  // namespace maglev::ppo
