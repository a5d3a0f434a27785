#pragma once
// Some operations of a network's file, run one after the other by torch's dispatcher: with
// gradients, autocast and captured graphs as any code of ATen's.
//
// Threads: any number may be in run().

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include "engine/nn/actor_critic.h"
#include "networks/exported/graph.h"

namespace maglev::networks::exported {

/// Of each slot, in a trial: the sizes of its tensor; empty: it is none.
using SlotSizes = std::vector<std::optional<std::vector<int64_t>>>;

class Program {
 public:
  /// For the values of slots `outputs`, from those of `given`.
  Program(const Graph& graph, std::vector<int64_t> given, std::vector<int64_t> outputs);

  /// `given` in order, undefined where it needs none. Adds what layers give to `layers`, where not
  /// null.
  std::vector<c10::IValue> run(const std::vector<at::Tensor>& weights,
                               std::vector<c10::IValue> given,
                               std::vector<LayerOutput>* layers = nullptr) const;
  /// The same, to see that it runs, noting sizes of all slots: throws Error that names an operation
  /// that does not.
  std::vector<c10::IValue> try_out(const Graph& graph, const std::vector<at::Tensor>& weights,
                                   std::vector<c10::IValue> given, SlotSizes& sizes) const;

  bool needs(int64_t weight) const;
  /// Whether it needs the value of a slot that is given.
  bool takes(int64_t slot) const { return needed_[size_t(slot)]; }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  struct Pass {
    const std::vector<at::Tensor>& weights;
    std::vector<c10::IValue> values;
    at::Stack stack;
    at::Device device;
  };
  Pass begin(const std::vector<at::Tensor>& weights, std::vector<c10::IValue> given) const;
  std::vector<c10::IValue> end(const Pass& pass) const;
  static void step(const Node& node, Pass& pass);

  std::vector<Node> nodes_;
  std::vector<int64_t> given_, outputs_;
  std::vector<bool> needed_;  ///< of each slot
};

}  // namespace maglev::networks::exported
