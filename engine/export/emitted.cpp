#include "engine/export/emitted.h"

#include <bit>

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev {

Emitted::Emitted(OnnxGraph& graph, const RecordedOperation& few, const RecordedOperation& more)
    : graph(graph), few_(few), more_(more) {
  for (const RecordedSlot& slot : few.results)
    results_.insert(results_.end(), slot.tensors.begin(), slot.tensors.end());
}

void Emitted::refuse(const std::string& why) const {
  throw Error("[export] " + name() + " cannot be exported where " + why);
}

const RecordedSlot& Emitted::slot(const std::string& argument) const {
  const RecordedSlot* found = few_.find(argument);
  if (!found) throw Error("[export] " + name() + " has no argument " + argument);
  return *found;
}

const c10::IValue& Emitted::fixed(const std::string& argument) const {
  const RecordedSlot &few = slot(argument), *more = more_.find(argument);
  const auto text = [](const c10::IValue& value) {
    return value.isDouble()
               ? c10::str(value.toDouble(), " ", std::bit_cast<int64_t>(value.toDouble()))
               : c10::str(value);
  };
  if (!more || text(few.value) != text(more->value))
    refuse(argument + " depends on the number of rows");
  return few.value;
}

bool Emitted::has(const std::string& argument) const {
  const RecordedSlot* found = few_.find(argument);
  return found && !found->value.isNone() && (!found->value.isTensor() || found->tensors.at(0) >= 0);
}

bool Emitted::is_tensor(const std::string& argument) const {
  return slot(argument).value.isTensor();
}

int64_t Emitted::value(const std::string& argument) const { return values(argument).at(0); }

std::vector<int64_t> Emitted::values(const std::string& argument) const {
  return slot(argument).tensors;
}

std::string Emitted::number(const std::string& argument, at::ScalarType type) const {
  if (is_tensor(argument)) return tensor(argument, type);
  return graph.constant(at::scalar_tensor(fixed(argument).toScalar(), at::TensorOptions(type)));
}

int64_t Emitted::integer(const std::string& argument) const { return fixed(argument).toInt(); }

std::vector<int64_t> Emitted::integers(const std::string& argument) const {
  const c10::IValue& value = fixed(argument);
  if (value.isInt()) return {value.toInt()};
  return value.toIntVector();
}

double Emitted::real(const std::string& argument) const {
  return fixed(argument).toScalar().toDouble();
}

bool Emitted::flag(const std::string& argument) const { return fixed(argument).toBool(); }

std::string Emitted::text(const std::string& argument) const {
  return fixed(argument).toStringRef();
}

int64_t Emitted::dimension(const std::string& argument, const std::string& tensor) const {
  const int64_t dim = integer(argument);
  return dim < 0 ? dim + like(tensor).dim() : dim;
}

}  // namespace maglev
