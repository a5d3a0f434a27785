#pragma once
// Some sequences of a batch, through everything that an update does with them: the world model
// there and back, the dream, actor and critic. Gradients go into a lane of its own; of other
// shards' rows only the range of returns and the agreement with tokens tell, which stand between
// its two passes.
//
// Where memory is short a shard takes its sequences in parts, one after the other in the same
// buffers. The first pass then only finds what stands between, and the second goes the way there
// again before it goes back (Chen et al., "Training deep nets with sublinear memory cost", 2016).

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
  int64_t at_once;       ///< of them; a divisor of count
  at::Tensor returns;    ///< [H * T * count], written; part behind part, each [H, T * at_once]
  at::Tensor figures;    ///< [kFigures]: parts of the batch's figures, those that are sums
  /// [T * count, E] each, where there is no decoder: what the states say of the tokens, and these,
  /// are written; the gradient of the first is read.
  at::Tensor projected, token, d_projected;
};

class Shard {
 public:
  /// `networks`: with gradients bound to `lane` [P].
  Shard(const LearnerOptions& options, std::shared_ptr<Networks> networks, const at::Tensor& lane,
        const Head& slow_value, const MixInputs& mix, WeightRows& weights, const at::Tensor& bins,
        const ShardPlace& place);

  /// What an update reads, and the states it writes: its part of them. Weights of rows, where there
  /// are any, are written in the order of ShardPlace's columns: [T * B], and of the returns
  /// [H * T * B].
  struct Update {
    const Sequences& batch;
    const UpdateNoise& noise;
    StoredLatents& latents;
    at::Tensor row_weights, return_weights;
  };
  /// Everything that needs no other shard's rows. Sets gradients and figures to zero first.
  void first_pass(const Update& update);
  /// What is left, with returns in units of `range` (a scalar) and d_projected as it stands.
  void second_pass(const Update& update, const at::Tensor& range);

 private:
  bool in_parts() const { return place_.at_once < place_.count; }
  /// Calls work() for each part, whose sequences it stands at.
  template <class Work>
  void each_part(const Work& work);
  /// States of all steps, dreams from them and their returns; `learn`: the way back will follow.
  void look_ahead(const Update& update, bool learn);
  /// Losses of the model and of values; without a decoder not yet what was seen.
  void learn_model(const Sequences& batch);
  void learn_policy(const at::Tensor& range);
  /// From the gradients that met in the features, and d_projected, back to what was seen.
  void learn_states();
  void learn_divergence();
  void learn_values();
  void learn_replayed_values(const Sequences& batch);
  void learn_heads(const Sequences& batch);
  /// The part's sequences of x [T, B, ...], and its rows of what the place has.
  at::Tensor part(const at::Tensor& x) const;
  at::Tensor returns() const { return returns_of(place_.returns); }
  at::Tensor returns_of(const at::Tensor& place) const;
  at::Tensor rows_of(const at::Tensor& place) const;
  void add(Figure figure, const at::Tensor& value) { place_.figures[figure].add_(value); }

  Options options_;
  ModelShape shape_;
  std::shared_ptr<Networks> networks_;
  ShardPlace place_;
  ProductPrecision products_;
  int64_t T_, m_, n_;                 ///< sequences at once, and their rows of all steps
  int64_t begun_ = 0;                 ///< sequences of the shard before the part
  double batch_, rows_, dream_rows_;  ///< of the whole batch, by which means divide
  at::Tensor bins_, lane_;            ///< lane_: its gradients
  BackScratch scratch_;
  Core core_;
  Sight sight_;
  Scan scan_;
  Stack prior_;
  Dream dream_;
  Weight projector_;  ///< features to tokens, where there is no decoder
  at::Tensor projector_forward_, projector_back_;
  at::Tensor row_weight_;  ///< [n], of the part's rows; undefined: all count alike
  at::Tensor divergence_, d_probs_, loss_, entropy_, weight_, replayed_logits_, replayed_returns_;
};

}  // namespace maglev::dreamer
