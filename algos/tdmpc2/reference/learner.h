#pragma once
// One update of TD-MPC2 by ATen and autograd: the path of GPUs and images, and the reference of the
// panels.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/numbers.h"
#include "algos/tdmpc2/world_model.h"

namespace maglev::tdmpc2 {

class ReferenceLearner : public Learner {
 public:
  ReferenceLearner(const LearnerOptions& options, LearnerState& state);

  /// Graph-safe.
  void update(const Sequences& batch, at::Tensor& figures) override;

  // its parts, in order; a test may look between them

  /// Targets r + gamma (1 - terminated) min over the drawn pair of target networks, [H, B], and the
  /// latents they were computed at, [H, B, D].
  struct Targets {
    at::Tensor value, latent;
  };
  Targets targets(const Sequences& batch) const;
  /// Gradients of the model's losses into state.grad; returns the latents [H+1, B, D].
  at::Tensor model_losses(const Sequences& batch, const Targets& targets, at::Tensor& figures);
  /// Gradients of the policy's loss at latents [H+1, B, D] into state.grad, and the running scale.
  void policy_loss(const at::Tensor& latents, const at::Tensor& task, at::Tensor& figures);

 private:
  at::Tensor normals(UpdateNumbers kind, at::IntArrayRef sizes) const;
  at::Tensor uniforms(UpdateNumbers kind, at::IntArrayRef sizes) const;
  /// What the first product of the value networks is multiplied by; undefined without dropout.
  at::Tensor keep(UpdateNumbers kind, int64_t nets, int64_t steps, int64_t rows) const;
  /// The two networks drawn, [2] i64.
  at::Tensor drawn_pair(UpdateNumbers kind) const;
  at::Tensor encode(const Sequences& batch, int64_t first, int64_t count) const;
  /// The task's embedding for `steps` time steps, [steps, B, T]; undefined without tasks.
  at::Tensor embedded(const at::Tensor& task, int64_t steps) const;
  at::Tensor mask_of(const at::Tensor& task) const;
  at::Tensor discount_of_rows(const at::Tensor& task) const;
  /// Logits [2, rows, kBins] of the drawn pair of `nets` at joined inputs [rows, ...].
  at::Tensor pair_logits(const StackedMlp& nets, const at::Tensor& pair, const at::Tensor& x,
                         const at::Tensor& keep) const;

  LearnerOptions options_;
  LearnerState* state_;
  StackedMlp q_, target_q_;
  at::Tensor rho_;       ///< [H+1] f32, rho^t
  at::Tensor pairs_;     ///< [pairs, 2] i64
  at::Tensor discount_;  ///< [tasks] f32
};

}  // namespace maglev::tdmpc2
