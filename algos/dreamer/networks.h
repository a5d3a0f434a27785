#pragma once
// The networks of Dreamer V3: those that act, and those that only learning needs behind them.

#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "algos/dreamer/layers.h"
#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/observation.h"
#include "algos/dreamer/rssm.h"
#include "engine/data/state.h"

namespace maglev::dreamer {

/// What acts.
class ActingNetworks : public torch::nn::Module {
 public:
  ActingNetworks(const ModelShape& shape, Initializer& init);

  std::shared_ptr<Encoder> encoder;
  std::shared_ptr<Rssm> rssm;
  std::shared_ptr<Head> policy;  ///< of features [..., F], what ActionDistribution takes

  /// Under `acting.`, by itself: another run may begin at these alone.
  void visit_acting(StateVisitor& visitor);
};

/// All of them. Parameters of the acting ones come first, as they lie there.
class Networks : public ActingNetworks {
 public:
  Networks(const ModelShape& shape, Initializer init);

  std::shared_ptr<Decoder> decoder;  ///< or null
  std::shared_ptr<Dense> projector;  ///< features to tokens, in the decoder's place, or null
  std::shared_ptr<Head> reward;      ///< of features, logits of kBins
  std::shared_ptr<Head> going_on;  ///< logit that the episode goes on, times what the future counts
  std::shared_ptr<Head> value;     ///< logits of kBins

  /// The others, under `learning.`.
  void visit_learning(StateVisitor& visitor);
};

/// A value network by itself, of the shape that Networks::value has.
std::shared_ptr<Head> make_value_network(const ModelShape& shape, Initializer& init);

/// Parameters of all networks, without making them.
int64_t parameter_count(const ModelShape& shape);
/// Likewise of those that act.
int64_t acting_parameter_count(const ModelShape& shape);

}  // namespace maglev::dreamer
