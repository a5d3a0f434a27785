#pragma once
// A network's file, as maglev.save_network writes it: a safetensors file of its weights whose
// metadata have the operations of its forward pass as JSON (docs/adding_a_network.md).
//   inputs       [{"name", "of": image, vector or privileged, "shape": of a row}]
//   parameters   names of the tensors that are learned; the others are buffers
//   nodes        [{"name", "op": "aten::linear", "args", "kwargs", "row": numbers it gives a row}]
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
#include "engine/nn/init.h"
#include "networks/exported/operation.h"

namespace maglev::networks::exported {

/// What of an encoded observation it takes.
enum class Part { image, vector, privileged };
constexpr auto names_of(Part) { return std::array{"image", "vector", "privileged"}; }

struct Input {
  std::string name;
  Part part;
  std::vector<int64_t> shape;  ///< of a row
};

struct Weight {
  at::Tensor value;
  bool learned = false;
};

struct Node {
  enum class Work { operation, size, add, sub, mul, floordiv, mod, item };
  std::string name;
  std::string layer = {};  ///< the module whose weights it takes; empty: it takes none
  Work work = Work::operation;
  std::optional<c10::OperatorHandle> operation = {};
  std::vector<Argument> arguments = {};
  int64_t slot = 0, results = 1;          ///< its values are those from `slot` on
  int64_t row = 0;                        ///< numbers it gives a row; 0: it is a view
  std::vector<std::string> weights = {};  ///< that it takes
};

/// A last layer: weight [out, in], bias [out].
struct Head {
  int64_t slot;  ///< of its input
  std::string weight, bias;
};

struct Graph {
  /// Reads a file. Weights are made by `init`, and filled where that gives memory. Throws Error,
  /// which names the file and what is wrong with it.
  Graph(const std::string& path, const Initializer& init);

  const Weight& weight(const std::string& name) const;
  /// An error of this file.
  Error wrong(const std::string& what) const;

  std::string path, hash;     ///< hash: of all but what weights hold
  std::vector<Input> inputs;  ///< their values are the first
  std::map<std::string, Weight> weights;
  std::vector<std::string> parameters;  ///< in the module's order
  std::vector<Node> nodes;
  int64_t slots = 0;
  std::optional<Head> policy_head;  ///< none: `logits` are the policy's
  int64_t logits = -1;
  Head value_head;
  std::string log_std;  ///< empty: there is none
};

}  // namespace maglev::networks::exported
