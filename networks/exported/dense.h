#pragma once
// A network's file seen as fully connected layers, for panels.

#include <optional>

#include "engine/nn/actor_critic.h"
#include "networks/exported/graph.h"

namespace maglev::networks::exported {

/// All layers but the heads, where the vector that is observed goes through layers of a weight, a
/// bias and a known activation, and through nothing else; the value's may begin with the policy's,
/// and any other has a weight and a bias of its own. None: it is more than that.
/// `weights`: the graph's.
std::optional<DenseStacks> dense_layers(const Graph& graph, const std::vector<at::Tensor>& weights);

}  // namespace maglev::networks::exported
