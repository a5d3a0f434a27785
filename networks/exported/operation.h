#pragma once
// Operations of torch by name, with what they take: of those that are functions of their arguments
// alone, so that a file of them can do nothing but compute.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <nlohmann/json_fwd.hpp>

namespace maglev::networks::exported {

struct Operand {
  c10::IValue constant;
  int64_t slot = -1;    ///< the value of a pass that it is; -1: a weight or the constant
  int64_t weight = -1;  ///< the weight that it is; -1: the constant
  bool last = false;    ///< nobody reads that value afterwards

  bool fixed() const { return slot < 0 && weight < 0; }
};

struct Argument {
  enum class Kind { one, device, integers, tensors, maybe_tensors };
  Kind kind = Kind::one;            ///< device: where the pass computes
  std::vector<Operand> parts = {};  ///< of a list, else one
};

/// A value of a file as errors show it: a list or an object by its kind alone.
std::string shown(const nlohmann::json& value);

/// The value that a text "%name" means. Throws Error where there is none.
using Find = std::function<Operand(const std::string& name)>;

/// "aten::add.Tensor", "aten::linear". Throws Error where this torch has no such operation, or one
/// that is no function of its arguments alone: it writes, draws, or reads something else.
c10::OperatorHandle find_operation(const std::string& name);

/// One for each argument of the schema, of a node's `args` and `kwargs`; what those leave out has
/// its default. Throws Error where one does not fit, or makes it learn or draw by itself.
std::vector<Argument> arguments_of(const c10::FunctionSchema& schema, const nlohmann::json& node,
                                   const Find& find);
/// "%name", a whole number, or what stands for another constant of this type.
Operand operand_of(const nlohmann::json& value, const c10::TypePtr& type, const Find& find);

}  // namespace maglev::networks::exported
