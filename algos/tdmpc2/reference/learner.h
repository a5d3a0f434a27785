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

/// What is learned from at once: `rows`, which are sequences [first, first + count()) of a batch of
/// `batch`.
struct Part {
  Sequences rows;
  int64_t first, batch;

  int64_t count() const { return rows.action.size(1); }
  bool whole() const { return count() == batch; }
  double share() const { return double(count()) / double(batch); }
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
  /// Gradients of the policy's loss at the batch's latents [H+1, B, D] into state.grad, likewise,
  /// and the running scale.
  void policy_gradients(const at::Tensor& latents, const Sequences& batch, int64_t at_once,
                        at::Tensor& figures);

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

  /// The batch's numbers [outer, B, width] of a part's rows.
  template <class Draw>
  at::Tensor drawn(UpdateNumbers kind, int64_t outer, int64_t width, const Part& part,
                   const Draw& draw) const;
  at::Tensor normals(UpdateNumbers kind, int64_t steps, const Part& part) const;
  /// What the first product of the value networks is multiplied by; undefined without dropout.
  at::Tensor keep(UpdateNumbers kind, int64_t nets, int64_t steps, const Part& part) const;
  NoiseFill numbers(UpdateNumbers kind) const;
  /// The two networks drawn, [2] i64.
  at::Tensor drawn_pair(UpdateNumbers kind) const;
  /// Latents of observations [first, first + count) in time, [count, B, D].
  at::Tensor encode(const Part& part, int64_t first, int64_t count) const;
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
