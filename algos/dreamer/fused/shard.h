#pragma once
// Some sequences of a batch, through everything that an update does with them: the world model there
// and back, the dream, actor and critic. Gradients go into a lane of its own; no other shard's rows
// are read but for the range of returns, which stands between its two stages.

#include <memory>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/fused/core.h"
#include "algos/dreamer/fused/dream.h"
#include "algos/dreamer/fused/scan.h"
#include "algos/dreamer/fused/sight.h"
#include "algos/dreamer/fused/stack.h"
#include "algos/dreamer/learner.h"
#include "algos/dreamer/networks.h"
#include "algos/dreamer/reference/loss.h"

namespace maglev::dreamer {

/// Which sequences, and where their results go.
struct ShardPlace {
  int64_t first, count;  ///< sequences [first, first + count) of the batch
  at::Tensor returns;    ///< [H, T * count], written
  at::Tensor figures;    ///< [kFigures]: parts of the batch's figures, those that are sums
  /// [T * count, E] each, where there is no decoder: what the states say of the tokens, and these, are
  /// written; the gradient of the first is read.
  at::Tensor projected, token, d_projected;
};

class Shard {
 public:
  /// `networks`: with bound gradients.
  Shard(const LearnerOptions& options, std::shared_ptr<Networks> networks, const Head& slow_value,
        const MixInputs& mix, WeightRows& weights, const at::Tensor& bins, const ShardPlace& place);

  /// Everything that needs no other shard's rows, but the way back through the states. Writes its
  /// part of the states.
  void learn_model(const Sequences& batch, const UpdateNoise& noise, StoredLatents& latents);
  /// The policy, with returns in units of `range` (a scalar).
  void learn_policy(const at::Tensor& range);
  /// From the gradients that met in the features, and d_projected, back to what was seen.
  void learn_states();

 private:
  void learn_divergence();
  void learn_values();
  void learn_replayed_values(const Sequences& batch);
  void learn_heads(const Sequences& batch);
  /// Its sequences of x [T, B, ...].
  at::Tensor part(const at::Tensor& x) const;
  void set(Figure figure, const at::Tensor& value) { place_.figures[figure].copy_(value); }

  Options options_;
  ModelShape shape_;
  std::shared_ptr<Networks> networks_;
  ShardPlace place_;
  Precision precision_;
  int64_t T_, n_;             ///< n_: rows, of all steps
  double rows_, dream_rows_;  ///< of the whole batch, by which means divide
  at::Tensor bins_;
  BackScratch scratch_;
  Core core_;
  Sight sight_;
  Scan scan_;
  Stack prior_;
  Dream dream_;
  Weight projector_;  ///< features to tokens, where there is no decoder
  at::Tensor projector_forward_, projector_back_;
  at::Tensor divergence_, d_probs_, loss_, entropy_, weight_, replayed_logits_, replayed_returns_;
};

}  // namespace maglev::dreamer
