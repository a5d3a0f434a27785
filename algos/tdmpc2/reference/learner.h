#pragma once
// One update of TD-MPC2 by ATen and autograd: the path of GPUs and images, and the reference of the
// panels. Losses are means over sequences, so that a batch may be learned from part by part.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/numbers.h"
#include "algos/tdmpc2/policy_prior.h"
#include "algos/tdmpc2/world_model.h"
#include "engine/algo/micro_batch.h"

namespace maglev::tdmpc2 {

/// Sequences [first, first + count) of a batch of `batch`: what is learned from at once.
struct Part {
  int64_t first, count, batch;

  bool whole() const { return count == batch; }
  double share() const { return double(count) / double(batch); }
};

class ReferenceLearner : public Learner {
 public:
  ReferenceLearner(const LearnerOptions& options, LearnerState& state);

  /// Graph-safe.
  void update(const Sequences& batch, at::Tensor& figures) override;

  /// What became of the batch where memory did not suffice for all of it at once.
  std::string note() const override { return micro_batch_.note(); }

  // its parts, in order; a test may look between them

  /// Gradients of the model's losses into state.grad, from `at_once` sequences after the others;
  /// returns the latents [H+1, B, D].
  at::Tensor model_gradients(const Sequences& batch, int64_t at_once, at::Tensor& figures);
  /// Gradients of the policy's loss at latents [H+1, B, D] into state.grad, likewise, and the running
  /// scale.
  void policy_gradients(const at::Tensor& latents, const at::Tensor& task, int64_t at_once,
                        at::Tensor& figures);

 private:
  /// Targets r + gamma (1 - terminated) min over the drawn pair of target networks, [H, B], and the
  /// latents they were computed at, [H, B, D].
  struct Targets {
    at::Tensor value, latent;
  };
  Targets targets(const Sequences& part, const Part& rows) const;
  /// Adds a part's share of the model's losses and their gradients; its latents [H+1, B, D].
  at::Tensor model_losses(const Sequences& part, const Part& rows, at::Tensor& figures);
  /// What the policy would do at latents [H+1, B, D], and its value there, [H+1, B].
  struct PolicyValues {
    PolicyDraw draw;
    at::Tensor q;
  };
  PolicyValues policy_values(const at::Tensor& latents, const at::Tensor& task,
                             const Part& rows) const;
  /// Adds a part's share of the policy's loss, values in units of `scale`, and its gradients.
  void policy_loss(const PolicyValues& values, const at::Tensor& scale, const Part& rows,
                   at::Tensor& figures);

  /// The batch's numbers [outer, B, width] of those rows.
  template <class Draw>
  at::Tensor drawn(UpdateNumbers kind, int64_t outer, int64_t width, const Part& rows,
                   const Draw& draw) const;
  at::Tensor normals(UpdateNumbers kind, int64_t steps, const Part& rows) const;
  /// What the first product of the value networks is multiplied by; undefined without dropout.
  at::Tensor keep(UpdateNumbers kind, int64_t nets, int64_t steps, const Part& rows) const;
  /// The two networks drawn, [2] i64.
  at::Tensor drawn_pair(UpdateNumbers kind) const;
  at::Tensor encode(const Sequences& part, const Part& rows, int64_t first, int64_t count) const;
  /// The task's embedding for `steps` time steps, [steps, B, T]; undefined without tasks.
  at::Tensor embedded(const at::Tensor& task, int64_t steps) const;
  at::Tensor mask_of(const at::Tensor& task) const;
  at::Tensor discount_of_rows(const at::Tensor& task) const;
  /// Logits [2, rows, kBins] of the drawn pair of `nets` at joined inputs [rows, ...].
  at::Tensor pair_logits(const StackedMlp& nets, const at::Tensor& pair, const at::Tensor& x,
                         const at::Tensor& keep) const;

  LearnerOptions options_;
  LearnerState* state_;
  MicroBatch micro_batch_;  ///< sequences at once
  StackedMlp q_, target_q_;
  at::Tensor rho_;       ///< [H+1] f32, rho^t
  at::Tensor pairs_;     ///< [pairs, 2] i64
  at::Tensor discount_;  ///< [tasks] f32
};

}  // namespace maglev::tdmpc2
