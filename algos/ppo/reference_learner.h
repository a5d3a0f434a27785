#pragma once
// PPO as the paper has it, in plain ATen, top to bottom: what ppo.fused=false runs on every device,
// what FusedLearner is held to, and where an idea is tried first.

#include <memory>

#include "algos/ppo/learner.h"

namespace maglev::ppo {

class ReferenceLearner : public Learner {
 public:
  ReferenceLearner(const Options& options, const AlgoContext& context, PpoPolicy& policy,
                   LearnerState& state);

  void update(const Batch& batch, Metrics& metrics) override;
  void prepare(const Batch& batch) override;
  void minibatch_step(const Batch& batch, const at::Tensor& given) override;
  void finish(const Batch& batch) override;
  Results results() const override;

 private:
  const Options options_;
  const AlgoContext context_;
  PpoPolicy& policy_;
  LearnerState& state_;
  const int64_t minibatch_;               ///< rows of a step, the last of an epoch may have fewer
  at::Tensor grad_;                       ///< [P] f32
  std::shared_ptr<ActorCritic> network_;  ///< the policy's, with gradients in grad_
  int64_t first_metric_ = -1;

  // of this update: scalars f32, then [T, rows] f32
  at::Tensor lr_, clip_, value_clip_, entropy_coef_, entropy_floor_, stop_, explained_variance_;
  at::Tensor valid_, advantage_, returns_;
  at::Tensor target_, old_value_;  ///< in units of the value head
  at::Tensor figures_;             ///< [kPpoFigures] f32, of the last minibatch
  at::Tensor valid_rows_;          ///< scalar f32: rows of it that count, of all processes
};

}  // namespace maglev::ppo
