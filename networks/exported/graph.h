#pragma once
// A network's file, as maglev.save_network writes it: a safetensors file of its weights whose
// metadata have the operations of its forward pass as JSON (docs/adding_a_network.md).
//   inputs       [{"name", "of": image, vector, privileged or memory, "shape": of a row}]
//   parameters   names of the tensors that are learned; the others are buffers
//   nodes        [{"name", "op": "aten::linear", "args", "kwargs", "row": numbers it gives a row}]
//   memory       "%name": what is remembered behind the step, where an input is what was before it
//   policy_head, value_head   {"input": "%name", "weight", "bias"}, a last layer each, with learned
//                tensors that nothing else reads, or of the policy "logits": "%name"
//   log_std      the parameter that is one, where there is, and nothing else reads it
// An argument is a number, a text "%name" that means an input, a weight or a node, a list, or a
// constant by its kind: {"dtype": "float32"}. Sizes are nodes too: size, add, sub, mul, floordiv,
// mod; item takes one of several results.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/safetensors.h"
#include "engine/nn/init.h"
#include "networks/exported/operation.h"

namespace maglev::networks::exported {

/// What of an encoded observation it takes, or what it remembers.
enum class Part { image, vector, privileged, memory };
constexpr auto names_of(Part) { return std::array{"image", "vector", "privileged", "memory"}; }

struct Input {
  std::string name;
  Part part;
  std::vector<int64_t> shape;  ///< of a row
};

/// A tensor of the file.
struct Weight {
  SafeTensor tensor;
  at::ScalarType type;
  bool learned = false;

  int64_t numel() const { return int64_t(tensor.bytes) / safe_dtype_bytes(tensor.dtype); }
};

struct Node {
  enum class Work { operation, size, add, sub, mul, floordiv, mod, item };
  std::string name;
  std::string layer = {};  ///< the module whose weights it takes; empty: it takes none
  Work work = Work::operation;
  std::optional<c10::OperatorHandle> operation = {};
  std::vector<Argument> arguments = {};
  int64_t slot = 0, results = 1;      ///< its values are those from `slot` on
  int64_t row = 0;                    ///< numbers it gives a row; 0: it is a view
  int64_t per_number = 1;             ///< multiply-adds of each of them
  bool convolves = false;             ///< by a weight of more than two dimensions
  std::vector<int64_t> weights = {};  ///< that it takes
};

/// A last layer: weight [out, in], bias [out].
struct Head {
  int64_t slot;  ///< of its input
  int64_t weight, bias;
};

/// What a file says. Nothing in it changes: a network and its replicas have one, and tensors each
/// their own.
struct Graph {
  /// Reads a file, but for what its tensors hold. Throws Error, which names the file and what is
  /// wrong with it.
  explicit Graph(const std::string& path);

  /// Its tensors: with the file's numbers, or as `init` makes them where it skips those (zeros, or
  /// tensors without memory). Throws Error where the file cannot be read.
  std::vector<at::Tensor> tensors(const Initializer& init) const;
  /// The number of an input; -1: it has none of these.
  int64_t input_of(Part part) const;
  /// An error of this file.
  Error wrong(const std::string& what) const;

  std::string path, hash;     ///< hash: of all but what tensors hold
  std::vector<Input> inputs;  ///< their values are the first
  std::vector<Weight> weights;
  std::vector<int64_t> parameters;  ///< weights that are learned, in the module's order
  std::vector<Node> nodes;
  int64_t slots = 0;
  std::optional<Head> policy_head;  ///< none: `logits` are the policy's
  int64_t logits = -1;
  Head value_head;
  int64_t memory = -1;   ///< what is remembered behind a step; -1: nothing is
  int64_t log_std = -1;  ///< the weight; -1: there is none

  int64_t policy_slot() const { return policy_head ? policy_head->slot : logits; }
  /// Numbers a row; 0: it remembers nothing.
  int64_t memory_size() const {
    return memory < 0 ? 0 : inputs[size_t(input_of(Part::memory))].shape[0];
  }
};

}  // namespace maglev::networks::exported
