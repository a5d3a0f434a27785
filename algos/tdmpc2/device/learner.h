#pragma once
// One update of TD-MPC2 for a GPU: the reference's losses with their gradients written out, in few
// launches. Nothing is read back.
//
// What makes them few: a layer's end is one launch each way; observations of all times are encoded
// together; heads take all steps at once; the gradients of the dynamics' weights wait for all
// steps and are one product each; losses give their gradients on the way.

#include <string>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/device/stack.h"
#include "algos/tdmpc2/parts_learner.h"
#include "kernels/squashed_gaussian/squashed_gaussian_op.h"

namespace maglev::tdmpc2 {

class DeviceLearner : public PartsLearner {
 public:
  /// What keeps these settings from it, empty: nothing.
  static std::string obstacle(const LearnerOptions& options);

  /// Products are bf16 where the precision is, and so are gradients between them: what networks give
  /// back to a latent is added up in it. Ends, losses, the latents they compare and gradients of
  /// parameters are f32. On a processor it runs as well, for tests.
  DeviceLearner(const LearnerOptions& options, LearnerState& state);

  at::Tensor model_gradients(const Sequences& batch, int64_t at_once, at::Tensor& figures) override;
  void policy_gradients(const at::Tensor& latents, const Sequences& batch, int64_t at_once,
                        at::Tensor& figures) override;

 private:
  /// Inputs of networks: latents and actions side by side, and latents before they were rounded.
  struct Inputs {
    at::Tensor rows;    ///< [n, ld] in the products' dtype
    at::Tensor exact;   ///< [n, D] f32; undefined where rows are
    at::Tensor latent;  ///< [n, D] f32, of whichever
  };
  /// A part's rollout: latents [(H+1) * B, D] and what is learned at those that actions were taken
  /// `from`, [H * B, ld], and that they led `to`.
  struct ModelPass {
    StackRun encoder, dynamics;
    at::Tensor from, to, latents;
    at::Tensor seen;                    ///< [H * B, D] f32, what latents should be
    at::Tensor wanted;                  ///< [H * B], TD targets
    at::Tensor weights;                 ///< [H * B], see row_weights
    at::Tensor d_latent, d_from, d_to;  ///< gradients of latents, and views of them
  };
  /// What the policy would do at a part's latents, and its value there, [(H+1) * B].
  struct PolicyPass {
    StackRun policy, q;
    SquashedDraw draw;
    at::Tensor logits, value;
    DeviceStack pair;
  };

  Inputs inputs(int64_t rows) const;
  at::Tensor latents_of(const at::Tensor& rows) const;
  at::Tensor actions_of(const at::Tensor& rows) const;
  at::Tensor both_of(const at::Tensor& rows) const;
  at::Tensor in_products(const at::Tensor& x) const;  ///< in their dtype

  /// A stack that learns.
  DeviceStack stack(const MlpPlaces& first, int64_t n, DenseEnd last, double dropout = 0) const;
  /// The value networks `kind` draws out of `flat`, [q_end - q_begin] f32.
  DeviceStack pair(const at::Tensor& flat, UpdateNumbers kind, double dropout) const;
  /// The policy's draw at latents of rows, whose actions it writes into them.
  SquashedDraw act(StackRun& run, const at::Tensor& rows, UpdateNumbers kind, int64_t steps,
                   const Part& part) const;
  /// What each row [steps * B] of a part counts in the batch's mean over `steps` times, weighted by
  /// rho^t.
  at::Tensor row_weights(int64_t steps, const Part& part) const;
  /// r + gamma (1 - terminated) min over the drawn pair of target networks, [H * B].
  at::Tensor targets(const Inputs& seen, const Part& part) const;
  ModelPass roll_out(const Part& part) const;
  /// A head all the way back: its weights' gradients, and its share of d_latent, added.
  void learn_head(const DeviceStack& net, StackRun& run, const at::Tensor& d_logits,
                  const at::Tensor& d_latent) const;
  // each leaves its gradients and returns its loss, a scalar
  at::Tensor learn_latents(ModelPass& pass, const Part& part) const;
  at::Tensor learn_rewards(ModelPass& pass, const Part& part) const;
  at::Tensor learn_values(ModelPass& pass, const Part& part) const;
  at::Tensor learn_terminations(ModelPass& pass, const Part& part) const;
  /// Returns the latents [H+1, B, D] f32.
  at::Tensor learn_model(const Part& part, at::Tensor& figures);
  PolicyPass policy_pass(const Part& part, const at::Tensor& latents) const;
  void learn_policy(PolicyPass& pass, const at::Tensor& scale, const Part& part,
                    at::Tensor& figures);
  /// Adds what products left of weights' gradients in elements [begin, end), where that is apart.
  void gather(int64_t begin, int64_t end);

  int64_t D_, A_, ld_;
  at::ScalarType dtype_;
  at::Tensor weights_;      ///< [P] in the products' dtype: the parameters, or a copy
  at::Tensor weight_grad_;  ///< [P] likewise: state.grad, or what is added to it
  DeviceStack encoder_, dynamics_, reward_, q_, policy_;
  std::vector<DeviceStack> termination_;  ///< one, or none
  at::Tensor consistency_slope_;          ///< scalar f32: of half a latent's squared error
  at::Tensor units_, coefs_;              ///< [4] f32: what losses' sums are times; their weights
};

}  // namespace maglev::tdmpc2
