#pragma once
// The operations of a network's file that some of its values follow from, run one after the other
// by torch's dispatcher: with gradients, autocast and captured graphs as any code of ATen's.
//
// Threads: any number may be in run().

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "engine/nn/actor_critic.h"
#include "networks/exported/graph.h"

namespace maglev::networks::exported {

class Program {
 public:
  /// For the values of these slots.
  Program(const Graph& graph, const std::vector<int64_t>& outputs);

  /// inputs: as the graph has them, undefined where it does not need one. Adds what layers give to
  /// `layers`, where not null.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs,
                              std::vector<LayerOutput>* layers = nullptr) const;
  /// The same, to see that it runs: throws Error that names an operation that does not.
  std::vector<at::Tensor> try_out(const Graph& graph, const std::vector<at::Tensor>& inputs) const;

  bool needs(const std::string& weight) const;
  bool needs_input(size_t input) const { return inputs_[input]; }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  struct Pass {
    std::vector<c10::IValue> values;
    at::Stack stack;
    at::Device device;
  };
  Pass begin(const std::vector<at::Tensor>& inputs) const;
  std::vector<at::Tensor> end(const Pass& pass) const;
  static void step(const Node& node, Pass& pass);

  std::vector<Node> nodes_;
  std::vector<bool> inputs_;
  std::vector<int64_t> outputs_;
  size_t slots_;
};

}  // namespace maglev::networks::exported
