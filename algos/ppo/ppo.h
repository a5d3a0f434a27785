#pragma once
// Proximal policy optimisation with a clipped surrogate (Schulman et al., "Proximal policy
// optimization algorithms", 2017) as the trainer sees it: a policy that acts and a learner.

#include <memory>

#include "algos/ppo/learner.h"
#include "algos/ppo/leash.h"
#include "algos/ppo/policy.h"

namespace maglev::ppo {

class Ppo : public Algorithm {
 public:
  /// Throws Error when settings contradict: a minibatch larger than the rollout, a network the
  /// observation cannot feed.
  Ppo(const Options& options, const AlgoContext& context);

  const DataPlan& plan() const override { return plan_; }
  PpoPolicy& policy() override { return policy_; }
  void update(const Batch& batch, Metrics& metrics) override;
  void visit_state(StateVisitor& visitor) override;
  std::string note() const override { return joined_notes(learner_->note(), note_); }
  void follow_networks() override;

  /// For tests, which drive its stages.
  Learner& learner() { return *learner_; }

 private:
  DataPlan plan_;
  PpoPolicy policy_;
  LearnerState state_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<Leash> leash_;  ///< null: free
  std::string note_;              ///< of bounds, and the networks' own; often empty
};

}  // namespace maglev::ppo
