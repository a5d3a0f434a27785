#pragma once
// What an operation of ATen reads and writes, told to the emulated device as a kernel's accesses
// are: a launch on another stream that touches the same memory has to be ordered by an event.

#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

struct EmulatedStream;

namespace maglev::emulation {

/// An operation, called `name`, is given to `stream` now: what is told from here on is its doing.
/// Holds the device.
class Operation {
 public:
  Operation(EmulatedStream* stream, const std::string& name);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Every element of a tensor, where it lies in memory of the device. Throws Fault where
  /// somebody's access is not ordered with this one.
  void reads(const at::Tensor& t) const;
  void writes(const at::Tensor& t) const;
  /// The arguments of an operator, by what its schema says of each.
  void takes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) const;
  /// What it returns that is no argument of its.
  void gives(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> results) const;
};

/// Each tensor of a value: one, a list, a list of indices of which some are none.
template <class Visit>
void for_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& t : value.toTensorVector()) visit(t);
  if (value.isOptionalTensorList())
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
      if (t && t->defined()) visit(*t);
}

}  // namespace maglev::emulation
