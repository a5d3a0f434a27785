#include "networks/exported/dense.h"

#include <algorithm>

#include <ATen/core/Tensor.h>

namespace maglev::networks::exported {
namespace {

using Layers = std::vector<DenseTensors>;
using Tensors = std::vector<at::Tensor>;

const Node* maker_of(const Graph& graph, int64_t slot) {
  const auto found = std::ranges::find(graph.nodes, slot, &Node::slot);
  return found == graph.nodes.end() ? nullptr : &*found;
}

std::optional<Activation> activation_of(const Node& node) {
  if (!node.operation) return std::nullopt;
  const std::string& name = node.operation->schema().name();
  if (name == "aten::tanh") return Activation::tanh;
  if (name == "aten::relu") return Activation::relu;
  if (name == "aten::silu") return Activation::silu;
  return std::nullopt;
}

int64_t first_slot(const Node& node) { return node.arguments[0].parts[0].slot; }

// a learned weight or bias that an operation takes as a whole
at::Tensor learned(const Graph& graph, const Tensors& weights, const Node& node, size_t which) {
  if (node.weights.size() != 2) return {};
  const size_t weight = size_t(node.weights[which]);
  return graph.weights[weight].learned ? weights[weight] : at::Tensor();
}

// from the input `from` to the value of `slot`; none: by another way
std::optional<Layers> layers_to(const Graph& graph, const Tensors& weights, int64_t slot,
                                int64_t from) {
  Layers layers;
  while (slot != from) {
    const Node* node = maker_of(graph, slot);
    if (!node) return std::nullopt;
    const auto activation = activation_of(*node);
    if (!activation) return std::nullopt;
    const Node* product = maker_of(graph, first_slot(*node));
    if (!product || !product->operation || product->operation->schema().name() != "aten::linear")
      return std::nullopt;
    const auto weight = learned(graph, weights, *product, 0),
               bias = learned(graph, weights, *product, 1);
    if (!weight.defined() || !bias.defined()) return std::nullopt;
    // of others ATen makes as many numbers as there are units
    if (weight.dim() != 2 || bias.sizes() != at::IntArrayRef{weight.size(0)}) return std::nullopt;
    layers.insert(layers.begin(), {weight, bias, *activation});
    slot = first_slot(*product);
  }
  return layers;
}

bool same_layer(const DenseTensors& a, const DenseTensors& b) {
  return a.weight.is_same(b.weight) && a.bias.is_same(b.bias) && a.activation == b.activation;
}

// whether each has tensors of its own: the gradient of one layer would replace another's
bool have_own_tensors(const DenseStacks& stacks) {
  std::vector<at::Tensor> seen;
  for (const Layers* layers : {&stacks.shared, &stacks.policy, &stacks.value})
    for (const DenseTensors& layer : *layers)
      for (const at::Tensor& tensor : {layer.weight, layer.bias}) {
        if (std::ranges::any_of(seen, [&](const at::Tensor& t) { return t.is_same(tensor); }))
          return false;
        seen.push_back(tensor);
      }
  return true;
}

}  // namespace

std::optional<DenseStacks> dense_layers(const Graph& graph, const Tensors& weights) {
  if (!graph.policy_head || graph.inputs.size() != 1 || graph.inputs[0].part != Part::vector)
    return std::nullopt;
  const auto policy = layers_to(graph, weights, graph.policy_head->slot, 0);
  const auto value = layers_to(graph, weights, graph.value_head.slot, 0);
  if (!policy || !value) return std::nullopt;
  const size_t most = std::min(policy->size(), value->size());
  size_t same = 0;
  while (same < most && same_layer((*policy)[same], (*value)[same])) ++same;
  DenseStacks stacks;
  const auto part = [&](const Layers& all, size_t begin, size_t end) {
    return Layers(all.begin() + int64_t(begin), all.begin() + int64_t(end));
  };
  stacks.shared = part(*policy, 0, same);
  stacks.policy = part(*policy, same, policy->size());
  stacks.value = part(*value, same, value->size());
  if (!have_own_tensors(stacks)) return std::nullopt;
  return stacks;
}

}  // namespace maglev::networks::exported
