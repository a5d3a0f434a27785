#include "engine/nn/actor_critic.h"

#include "base/core/error.h"

namespace maglev {

NetworkOutput ActorCritic::forward_through(const std::vector<at::Tensor>&, Want, Recall&) {
  assert_failed("forward_through()", "only what has a memory_size remembers", __FILE__, __LINE__);
}

NetworkOutput ActorCritic::look(const EncodedObs&, std::vector<LayerOutput>*, Recall*) {
  assert_failed("look()", "whoever encodes looks", __FILE__, __LINE__);
}

RowCost cost_of(const std::vector<at::Tensor>& parameters) {
  RowCost cost;
  for (const auto& p : parameters) {
    cost.multiply_adds += p.numel();
    if (p.dim() >= 2) cost.outputs += p.size(0);
  }
  return cost;
}

}  // namespace maglev
