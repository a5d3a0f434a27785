#pragma once
// The operations of ATen that a function makes of its inputs, in order, as values and what was made
// of them: what is exported of a policy. Recorded by ATen's own observer, so that nothing is
// defined twice.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

namespace maglev {

/// A tensor at one time: what is written in place is another value from then on.
struct RecordedValue {
  at::Tensor tensor;      ///< what it was; parameters and buffers are themselves
  bool varies = false;    ///< follows from the inputs
  bool made = false;      ///< by an operation, or given as an input; else it was there before
  bool empty = false;     ///< memory that no operation has written, nor read
  bool filled = false;    ///< such memory as it was when an operation read it, or made of it
  int64_t previous = -1;  ///< the value that was in the same tensor before
};

/// An argument or a result of an operation.
struct RecordedSlot {
  std::string name;
  c10::IValue value;
  /// Values of the tensors in it, -1 for one that is undefined; none where it holds no tensors.
  std::vector<int64_t> tensors = {};
};

struct RecordedOperation {
  std::string name;  ///< "aten::linear"
  std::vector<RecordedSlot> arguments, results;
  bool writes = false;  ///< one of its arguments
  /// What it made in turn, where it is made of others.
  std::vector<RecordedOperation> parts = {};

  /// Null where it has no such argument.
  const RecordedSlot* find(const std::string& argument) const;
};

struct Recording {
  std::vector<RecordedValue> values;  ///< the inputs first
  std::vector<RecordedOperation> operations;
  std::vector<int64_t> outputs;  ///< values
};

/// Calls `function`, which returns tensors it made of `inputs`, on this thread, and records it.
/// Throws Error where something else than ATen writes what it makes: by its bytes.
Recording record(const std::vector<at::Tensor>& inputs,
                 const std::function<std::vector<at::Tensor>()>& function);

}  // namespace maglev
