#pragma once
// What a network with a memory computes of sequences: what no memory is needed for of all steps at
// once, then step by step what is remembered, then of all steps at once what follows from it.

#include <vector>

#include <ATen/core/Tensor.h>

#include "networks/exported/program.h"

namespace maglev::networks::exported {

class Steps {
 public:
  /// For the values of `outputs`. per_row: of each slot whether it is a tensor [rows, ...], so that
  /// those of several steps are one behind another.
  Steps(const Graph& graph, const std::vector<int64_t>& outputs, const std::vector<bool>& per_row);

  /// inputs: the graph's, of [L * B] rows, time first, but for the memory. What is remembered is in
  /// f32 and made in f32, whatever an Autocast asks for.
  std::vector<c10::IValue> run(const std::vector<at::Tensor>& weights,
                               std::vector<c10::IValue> inputs, Recall& recall,
                               std::vector<LayerOutput>* layers) const;

 private:
  /// Which slots go from one of the three to another.
  struct Cut {
    std::vector<int64_t> inputs;  ///< the graph's but the memory
    std::vector<int64_t> seen;    ///< by each step, of what is made before
    std::vector<int64_t> past;    ///< what follows takes of what is made before
    std::vector<int64_t> given;   ///< what follows takes of steps
  };
  static Cut cut(const Graph& graph, const std::vector<int64_t>& outputs,
                 const std::vector<bool>& per_row);
  Steps(const Graph& graph, const std::vector<int64_t>& outputs, Cut cut);

  size_t memory_input_, seen_;
  Program before_, step_, behind_;
};

}  // namespace maglev::networks::exported
