#include "engine/export/graph.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/words.h"
#include "engine/export/operations.h"

namespace maglev {
namespace {

// a model's small constants may share a name, its weights have their own
constexpr size_t kSharedBytes = 1 << 12;

std::string text_of_type(at::ScalarType type) { return c10::toString(type); }

std::string bytes_in_order(const at::Tensor& tensor) {
  const auto dense = tensor.detach().cpu().contiguous();
  return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
}

bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
                          bytes_in_order(a) == bytes_in_order(b));
}

// a row of a tensor, where each is the same
std::optional<at::Tensor> one_row(const at::Tensor& tensor, const ExportedSizes& sizes) {
  at::Tensor row = tensor;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d].per_row) row = row.narrow(int64_t(d), 0, 1);
  if (!same_numbers(row.expand(tensor.sizes()), tensor)) return std::nullopt;
  return row;
}

}  // namespace

onnx::Type onnx_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return onnx::Type::f32;
    case at::kByte:
      return onnx::Type::u8;
    case at::kChar:
      return onnx::Type::i8;
    case at::kShort:
      return onnx::Type::i16;
    case at::kInt:
      return onnx::Type::i32;
    case at::kLong:
      return onnx::Type::i64;
    case at::kBool:
      return onnx::Type::boolean;
    case at::kHalf:
      return onnx::Type::f16;
    case at::kDouble:
      return onnx::Type::f64;
    case at::kBFloat16:
      return onnx::Type::bf16;
    default:
      throw Error("[export] ONNX has no type for " + text_of_type(type));
  }
}

OnnxGraph::OnnxGraph(const RecordedTwice& recorded, const std::vector<std::string>& inputs,
                     const std::map<std::string, at::Tensor>& state)
    : recorded_(recorded), state_(state), inputs_(inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) names_[int64_t(i)] = inputs[i];
}

void OnnxGraph::build() {
  const auto &few = recorded_.few.operations, &more = recorded_.more.operations;
  if (few.size() != more.size())
    throw Error("[export] which operations the policy makes depends on the number of rows");
  for (size_t i = 0; i < few.size(); ++i) add(few[i], more[i]);
}

// numbers on the host would be those of the recording for ever
void OnnxGraph::refuse_reads(const RecordedOperation& operation) const {
  static const std::set<std::string> reads{"aten::item", "aten::_local_scalar_dense",
                                           "aten::is_nonzero", "aten::equal"};
  if (reads.contains(operation.name) && any_varies(operation.arguments))
    throw Error("[export] the policy reads a number back (" + operation.name +
                "), and what follows from it cannot be exported");
  for (const RecordedOperation& part : operation.parts) refuse_reads(part);
}

bool OnnxGraph::any_varies(const std::vector<RecordedSlot>& slots) const {
  for (const RecordedSlot& slot : slots)
    for (int64_t value : slot.tensors)
      if (value >= 0 && varies(value)) return true;
  return false;
}

void OnnxGraph::add(const RecordedOperation& few, const RecordedOperation& more) {
  if (few.name != more.name)
    throw Error("[export] with other rows the policy makes " + more.name + " in place of " +
                few.name);
  if (few.name.starts_with("maglev::"))
    throw Error("[export] the kernel " + few.name.substr(8) +
                " is on the policy's way and has no reference there (engine/device/aten_only.h)");
  refuse_reads(few);
  if (!any_varies(few.results)) return;
  if (const EmitOperation* emit = find_operation(few.name)) {
    Emitted emitted(*this, few, more);
    (*emit)(emitted);
    return;
  }
  const auto refuse = [&] {
    throw Error("[export] " + few.name +
                " has no counterpart in ONNX here; engine/export/operations.cpp lists those that "
                "have");
  };
  // of others that have, where they are all of it
  if (few.parts.empty() || few.parts.size() != more.parts.size()) refuse();
  for (size_t i = 0; i < few.parts.size(); ++i) add(few.parts[i], more.parts[i]);
  for (const RecordedSlot& result : few.results)
    for (int64_t value : result.tensors)
      if (value >= 0 && varies(value) && !names_.contains(value)) {
        const int64_t last = recorded_.few.values[size_t(value)].previous;
        if (last < 0 || !names_.contains(last) || !same_numbers(like(last), like(value))) refuse();
        set(value, names_.at(last));
      }
}

const at::Tensor& OnnxGraph::like(int64_t value) const {
  return recorded_.few.values.at(size_t(value)).tensor;
}

bool OnnxGraph::varies(int64_t value) const {
  return recorded_.few.values.at(size_t(value)).varies;
}

ExportedSizes OnnxGraph::sizes_of(int64_t value) const {
  const auto few = like(value).sizes(),
             more = recorded_.more.values.at(size_t(value)).tensor.sizes();
  ExportedSizes sizes;
  for (size_t d = 0; d < few.size(); ++d) {
    const int64_t times = few[d] / recorded_.few_rows;
    const bool grows = few.size() == more.size() && few[d] != more[d];
    if (few.size() != more.size() ||
        (grows && (few[d] != times * recorded_.few_rows || more[d] != times * recorded_.more_rows)))
      throw Error("[export] a tensor of the policy is " + c10::str(few) + " of " +
                  std::to_string(recorded_.few_rows) + " rows and " + c10::str(more) + " of " +
                  std::to_string(recorded_.more_rows) + ": neither fixed nor so much a row");
    sizes.push_back(grows ? ExportedSize{times, true} : ExportedSize{few[d], false});
  }
  return sizes;
}

std::string OnnxGraph::name_of(int64_t value) {
  MAGLEV_ASSERT(value >= 0, "a tensor that is there");
  if (value < int64_t(inputs_.size()) && first_used_ < 0) first_used_ = value;
  const auto found = names_.find(value);
  if (found != names_.end()) return found->second;
  const RecordedValue &few = recorded_.few.values[size_t(value)],
                      &more = recorded_.more.values[size_t(value)];
  const bool alike = same_numbers(few.tensor, more.tensor);
  if (few.varies || (few.filled && !alike))
    throw Error(
        "[export] the policy uses memory that something else than ATen has written; such a step "
        "needs a reference (engine/device/aten_only.h)");
  if (alike) return names_[value] = constant(few.tensor);
  // the same for each row: one broadcasts
  const ExportedSizes sizes = sizes_of(value);
  const auto row = one_row(few.tensor, sizes), other = one_row(more.tensor, sizes);
  if (!row || !other || !same_numbers(*row, *other))
    throw Error("[export] a constant of the policy depends on the number of rows");
  return names_[value] = constant(*row);
}

std::string OnnxGraph::name_of(int64_t value, at::ScalarType type) {
  const at::ScalarType own = like(value).scalar_type();
  if (own == type || varies(value)) return cast(name_of(value), own, type);
  const RecordedValue& few = recorded_.few.values[size_t(value)];
  if (!same_numbers(few.tensor, recorded_.more.values[size_t(value)].tensor))
    return cast(name_of(value), own, type);
  return constant(few.tensor.to(type));
}

std::string OnnxGraph::constant(const at::Tensor& tensor) {
  for (const auto& [name, own] : state_)
    if (own.const_data_ptr() == tensor.const_data_ptr() && own.sizes() == tensor.sizes() &&
        own.strides() == tensor.strides() && own.scalar_type() == tensor.scalar_type())
      return constant_named(own, name);
  return constant_named(tensor, "");
}

std::string OnnxGraph::constant_named(const at::Tensor& tensor, const std::string& name) {
  std::string bytes = bytes_in_order(tensor);
  const std::string number = std::to_string(initializers_.size());
  std::string key = "=" + name;
  if (name.empty()) {
    key = text_of_type(tensor.scalar_type()) + c10::str(tensor.sizes());
    key += bytes.size() <= kSharedBytes ? bytes : "#" + number;
  }
  const auto [found, fresh] = constants_.try_emplace(key);
  if (!fresh) return found->second;
  found->second = name.empty() ? "constant_" + number : name;
  initializers_.push_back(
      {found->second, onnx_type(tensor.scalar_type()), tensor.sizes().vec(), std::move(bytes)});
  return found->second;
}

std::string OnnxGraph::constant(const std::vector<int64_t>& numbers) {
  return constant(at::tensor(numbers, at::kLong));
}

std::string OnnxGraph::node(const std::string& operation, std::vector<std::string> inputs,
                            std::vector<onnx::Attribute> attributes) {
  const std::string name = lower_case(operation) + "_" + std::to_string(nodes_.size());
  nodes_.push_back({operation, std::move(inputs), {name}, std::move(attributes)});
  return name;
}

std::string OnnxGraph::cast(const std::string& name, at::ScalarType from, at::ScalarType to) {
  return from == to ? name : node("Cast", {name}, {{"to", int64_t(onnx_type(to))}});
}

std::string OnnxGraph::shape(const ExportedSizes& extents) {
  std::vector<std::string> parts;
  bool fixed = true;
  std::vector<int64_t> sizes;
  for (const ExportedSize& extent : extents) {
    sizes.push_back(extent.size);
    fixed = fixed && !extent.per_row;
  }
  if (fixed) return constant(sizes);
  if (rows_.empty())
    rows_ = node("Shape", {inputs_.at(size_t(std::max<int64_t>(first_used_, 0)))},
                 {{"start", int64_t(0)}, {"end", int64_t(1)}});
  for (const ExportedSize& extent : extents) {
    if (!extent.per_row) parts.push_back(constant(std::vector<int64_t>{extent.size}));
    else if (extent.size == 1) parts.push_back(rows_);
    else parts.push_back(node("Mul", {rows_, constant(std::vector<int64_t>{extent.size})}));
  }
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", int64_t(0)}});
}

void OnnxGraph::finish(const std::vector<std::string>& outputs, onnx::Model& model) {
  const auto& values = recorded_.few.outputs;
  MAGLEV_ASSERT(outputs.size() == values.size(), "a name for each output");
  const auto port = [&](const std::string& name, int64_t value) {
    onnx::Port made{name, onnx_type(like(value).scalar_type()), {}};
    for (const ExportedSize& extent : sizes_of(value)) {
      if (!extent.per_row) made.shape.push_back(extent.size);
      else
        made.shape.push_back(extent.size == 1 ? "batch" : std::to_string(extent.size) + " batch");
    }
    return made;
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    nodes_.push_back({"Identity", {name_of(values[i])}, {outputs[i]}});
    model.outputs.push_back(port(outputs[i], values[i]));
  }
  // from the outputs back: what they need
  std::set<std::string> needed(outputs.begin(), outputs.end());
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
    if (std::ranges::any_of(node->outputs, [&](const auto& o) { return needed.contains(o); })) {
      needed.insert(node->inputs.begin(), node->inputs.end());
      model.nodes.push_back(std::move(*node));
    }
  std::ranges::reverse(model.nodes);
  for (onnx::Tensor& tensor : initializers_)
    if (needed.contains(tensor.name)) model.initializers.push_back(std::move(tensor));
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (needed.contains(inputs_[i])) model.inputs.push_back(port(inputs_[i], int64_t(i)));
}

}  // namespace maglev
