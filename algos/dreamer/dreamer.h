#pragma once
// Dreamer V3 (Hafner, Pasukonis, Ba and Lillicrap, "Mastering diverse control tasks through world
// models", Nature, 2025): a world model learned from replayed sequences, and an actor and a critic
// learned in what it imagines.
//
// Threads: the policy acts by the copy of the weights that publish() left, so it may act beside
// update.

#include <memory>

#include "algos/dreamer/learner.h"
#include "algos/dreamer/options.h"
#include "algos/dreamer/policy.h"
#include "engine/algo/algorithm.h"

namespace maglev::dreamer {

class Dreamer : public Algorithm {
 public:
  /// Throws Error when settings contradict each other or the environment.
  Dreamer(const Options& options, const AlgoContext& context);

  const DataPlan& plan() const override { return plan_; }
  Policy& policy() override { return policy_; }
  void update(const Batch& batch, Metrics& metrics) override;
  void publish() override { policy_.publish(state_.params.data()); }
  void visit_state(StateVisitor& visitor) override { state_.visit(visitor); }
  void follow_networks() override { state_.begin_slow_value(); }
  std::string note() const override { return learner_->note(); }

  Sequences sequences(const Batch& batch) const;
  LearnerState& state() { return state_; }
  /// Figures of the last update, [kFigures] f32.
  const at::Tensor& figures() const { return figures_; }

 private:
  DataPlan plan_;
  Objective objective_;
  bool ends_apart_;
  Group* group_;
  DreamerPolicy policy_;
  LearnerState state_;
  std::unique_ptr<Learner> learner_;
  at::Tensor figures_, one_;
  int64_t first_metric_ = -1;
};

/// The plan of such an algorithm.
DataPlan data_plan(const Options& options, const AlgoContext& context);

}  // namespace maglev::dreamer
