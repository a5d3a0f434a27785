#pragma once
// An operation of ATen while it becomes one of ONNX.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/export/graph.h"

namespace maglev {

/// An operation on its way into a graph, its arguments by the names ATen's schema gives them.
class Emitted {
 public:
  Emitted(OnnxGraph& graph, const RecordedOperation& few, const RecordedOperation& more);

  OnnxGraph& graph;
  const std::string& name() const { return few_.name; }

  /// Whether the argument is there and no None.
  bool has(const std::string& argument) const;
  bool is_tensor(const std::string& argument) const;
  /// A tensor argument's value.
  int64_t value(const std::string& argument) const;
  std::vector<int64_t> values(const std::string& argument) const;
  const at::Tensor& like(const std::string& argument) const { return graph.like(value(argument)); }
  /// A tensor, as `type` where one is given.
  std::string tensor(const std::string& argument) const { return graph.name_of(value(argument)); }
  std::string tensor(const std::string& argument, at::ScalarType type) const {
    return graph.name_of(value(argument), type);
  }
  /// A tensor, or a number as a constant.
  std::string number(const std::string& argument, at::ScalarType type) const;

  // plain arguments, which must not depend on the rows
  int64_t integer(const std::string& argument) const;
  std::vector<int64_t> integers(const std::string& argument) const;
  double real(const std::string& argument) const;
  bool flag(const std::string& argument) const;
  std::string text(const std::string& argument) const;
  /// A dimension of `tensor`, counted from its front.
  int64_t dimension(const std::string& argument, const std::string& tensor = "self") const;

  /// Throws Error: it cannot be exported where `why`.
  [[noreturn]] void refuse(const std::string& why) const;

  size_t results() const { return results_.size(); }
  int64_t result(size_t i = 0) const { return results_.at(i); }
  at::ScalarType type(size_t i = 0) const { return graph.like(result(i)).scalar_type(); }
  void give(const std::string& name, size_t i = 0) { graph.set(result(i), name); }
  /// A result of `type` as what it is in ATen.
  void give_as(const std::string& name, at::ScalarType type) {
    give(graph.cast(name, type, this->type()));
  }

 private:
  const RecordedSlot& slot(const std::string& argument) const;
  /// The argument, which is the same in both recordings.
  const c10::IValue& fixed(const std::string& argument) const;

  const RecordedOperation &few_, &more_;
  std::vector<int64_t> results_;
};

}  // namespace maglev
