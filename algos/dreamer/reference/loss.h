#pragma once
// The loss of Dreamer V3 as it is written down, by autograd: the world model on replayed sequences,
// actor and critic in what it imagines from them. In any precision, so that tests can ask for f64.
// Equations are numbered as in arXiv 2301.04104v2.

#include <ATen/core/Tensor.h>

#include "algos/dreamer/actions.h"
#include "algos/dreamer/learner.h"
#include "algos/dreamer/networks.h"

namespace maglev::dreamer {

/// What an update draws; see UpdateNumbers.
struct UpdateNoise {
  at::Tensor posterior;  ///< [T, B, S] uniforms
  at::Tensor prior;      ///< [H, T * B, S] uniforms
  at::Tensor action;     ///< [H + 1, T * B, ...]
};

/// What the world model makes of sequences.
struct Observed {
  at::Tensor token;      ///< [T, B, E]
  Latent latent;         ///< [T, B, ...], drawn from the posterior
  at::Tensor posterior;  ///< [T, B, S, C] log-probabilities
  at::Tensor prior;      ///< likewise
};

/// What it imagines from N states: steps 0 to H, without gradients.
struct Imagined {
  at::Tensor feature;                    ///< [H + 1, N, F]
  at::Tensor action;                     ///< [H + 1, N, A], drawn there
  at::Tensor reward, terminated, value;  ///< [H + 1, N]: means of the heads
  at::Tensor returns;                    ///< [H, N]
};

class ReferenceLoss {
 public:
  /// With `group` what is of the whole batch is of all processes' sequences: the range of returns,
  /// and the redundancy of states and tokens.
  ReferenceLoss(const Options& options, const ModelShape& shape, const Networks& networks,
                const Head& slow_value, Group* group = nullptr);

  /// All weighted, a scalar each. `total` is their sum, through which gradients go.
  struct Terms {
    at::Tensor observation;  ///< reconstruction or redundancy
    at::Tensor reward, going_on, dynamics, representation;
    at::Tensor policy, value, replay_value, total;
    Observed observed;
    at::Tensor divergence, entropy, mean_return, range;  ///< figures, scalars
  };
  /// `range` [2]: percentiles of returns, moved in place.
  Terms compute(const Sequences& batch, const UpdateNoise& noise, at::Tensor& range) const;

  // its parts, in order; a test may look between them

  Observed observe(const Sequences& batch, const at::Tensor& noise) const;
  void model_losses(const Sequences& batch, Terms& terms) const;
  Imagined imagine(const Latent& starts, const UpdateNoise& noise) const;
  /// `weight` [N]: how much each start counts; undefined: alike.
  void actor_critic_losses(const Imagined& imagined, const at::Tensor& weight, at::Tensor& range,
                           Terms& terms) const;
  /// `returns` [T, B]: what was imagined from each step.
  void replay_value_loss(const Sequences& batch, const at::Tensor& returns, Terms& terms) const;

 private:
  /// The redundancy loss over rows of all processes; its gradient is of this one's, in the scale of
  /// losses that are means over its own rows.
  at::Tensor redundancy(const at::Tensor& projected, const at::Tensor& token,
                        const at::Tensor& weight) const;
  /// Cross-entropy to `target`, and to what the slow network says of the same features.
  at::Tensor value_loss(const at::Tensor& feature, const at::Tensor& target) const;

  Options options_;
  ModelShape shape_;
  ActionDistribution actions_;
  const Networks* networks_;
  const Head* slow_value_;
  Group* group_;
  at::Tensor bins_;
};

}  // namespace maglev::dreamer
