#pragma once
// What a network's file computes, by what is wanted of it: read and tried once for a network and all
// of its replicas, which bring tensors of their own.
//
// Threads: any number may be in run().

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "networks/exported/program.h"
#include "networks/exported/steps.h"

namespace maglev::networks::exported {

class Computation {
 public:
  using Want = ActorCritic::Want;

  /// Throws Error, which names the file and what is wrong with it.
  explicit Computation(const std::string& path);

  const Graph& graph() const { return graph_; }
  /// All operations of what is wanted, what is remembered with them.
  const Program& whole(Want want) const { return ways_[index(want)].whole; }

  /// Runs it on zeros of a few rows, before run() is called: a file whose sizes do not hold is
  /// refused before it is trained. The policy's output, or what its last layer takes, is to have
  /// `policy` columns, what the value's last layer takes `value`.
  void try_out(const std::vector<at::Tensor>& weights, int64_t policy, int64_t value);
  /// What last layers take, or the policy's output: of the policy, of the value. `inputs`: the
  /// graph's, whatever stands for a memory. `recall`: null where nothing is remembered.
  std::vector<at::Tensor> run(Want want, const std::vector<at::Tensor>& weights,
                              std::vector<c10::IValue> inputs, Recall* recall,
                              std::vector<LayerOutput>* layers) const;

 private:
  /// How one kind of outputs is computed.
  struct Way {
    std::vector<int64_t> outputs;
    Program whole;
    std::optional<Steps> steps;  ///< where it remembers, once it was tried
  };
  static size_t index(Want want) { return !want.value ? 0 : want.policy ? 2 : 1; }
  Way way(const std::vector<int64_t>& outputs) const;

  Graph graph_;
  std::array<Way, 3> ways_;  ///< policy, value, both
};

}  // namespace maglev::networks::exported
