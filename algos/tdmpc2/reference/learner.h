#pragma once
// One update of TD-MPC2 by ATen and autograd: the path of images and several tasks, and the
// reference of the other learners.

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/parts_learner.h"
#include "algos/tdmpc2/policy_prior.h"
#include "algos/tdmpc2/world_model.h"

namespace maglev::tdmpc2 {

class ReferenceLearner : public PartsLearner {
 public:
  ReferenceLearner(const LearnerOptions& options, LearnerState& state);

  at::Tensor model_gradients(const Sequences& batch, int64_t at_once, at::Tensor& figures) override;
  void policy_gradients(const at::Tensor& latents, const Sequences& batch, int64_t at_once,
                        at::Tensor& figures) override;

 private:
  /// Targets r + gamma (1 - terminated) min over the drawn pair of target networks, [H, B], and the
  /// latents they were computed at, [H, B, D].
  struct Targets {
    at::Tensor value, latent;
  };
  Targets targets(const Part& part) const;
  /// The model's losses, their weighted sum, each a mean over the part; and where they were
  /// computed.
  struct ModelLoss {
    at::Tensor consistency, reward, value, termination, total;
    at::Tensor target;   ///< mean of the targets
    at::Tensor latents;  ///< [H+1, B, D], without their graph
  };
  ModelLoss model_loss(const Part& part) const;
  /// What the policy would do at latents [H+1, B, D], and its value there, [H+1, B].
  struct PolicyValues {
    PolicyDraw draw;
    at::Tensor q;
  };
  PolicyValues policy_values(const Part& part, const at::Tensor& latents) const;
  /// The policy's loss, with values in units of `scale`.
  at::Tensor policy_loss(const PolicyValues& values, const at::Tensor& scale) const;

  /// What the first product of the value networks is multiplied by; undefined without dropout.
  at::Tensor keep(UpdateNumbers kind, int64_t nets, int64_t steps, const Part& part) const;
  /// Latents of observations [first, first + count) in time, [count, B, D].
  at::Tensor encode(const Part& part, int64_t first, int64_t count) const;
  /// The task's embedding for `steps` time steps, [steps, B, T]; undefined without tasks.
  at::Tensor embedded(const at::Tensor& task, int64_t steps) const;
  at::Tensor mask_of(const at::Tensor& task) const;
  at::Tensor discount_of_rows(const at::Tensor& task) const;
  /// Logits [2, rows, kBins] of the drawn pair of `nets` at joined inputs [rows, ...].
  at::Tensor pair_logits(const StackedMlp& nets, const at::Tensor& pair, const at::Tensor& x,
                         const at::Tensor& keep) const;

  StackedMlp q_, target_q_;
  at::Tensor discount_;  ///< [tasks] f32
};

}  // namespace maglev::tdmpc2
