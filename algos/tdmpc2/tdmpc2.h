#pragma once
// TD-MPC2 (Hansen, Su and Wang, "TD-MPC2: scalable, robust world models for continuous control",
// ICLR 2024): a latent world model learnt from replayed sequences, and planning in it.
//
// Threads: the policy acts by the copy of the weights that publish() left, so it may act beside
// update.

#include <memory>
#include <vector>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/options.h"
#include "algos/tdmpc2/policy.h"
#include "engine/algo/algorithm.h"

namespace maglev::tdmpc2 {

class Tdmpc2 : public Algorithm {
 public:
  /// Throws Error when settings contradict each other or the environment.
  Tdmpc2(const Options& options, const AlgoContext& context);

  const DataPlan& plan() const override { return plan_; }
  Policy& policy() override { return policy_; }
  void update(const Batch& batch, Metrics& metrics) override;
  void publish() override { policy_.publish(state_.params.data()); }
  void visit_state(StateVisitor& visitor) override { state_.visit(visitor); }
  void follow_networks() override { state_.begin_targets(); }
  std::string note() const override { return joined_notes(learner_->note(), note_); }

  Sequences sequences(const Batch& batch) const;
  LearnerState& state() { return state_; }
  /// Figures of the last update, [kFigures] f32.
  const at::Tensor& figures() const { return figures_; }

 private:
  DataPlan plan_;
  Tdmpc2Policy policy_;
  LearnerState state_;
  std::unique_ptr<Learner> learner_;
  std::string note_;  ///< why learning is as slow as it is; often empty
  at::Tensor figures_, one_;
  int64_t first_metric_ = -1;
};

/// The plan of such an algorithm.
DataPlan data_plan(const Options& options, const AlgoContext& context);

}  // namespace maglev::tdmpc2
