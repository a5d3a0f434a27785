#include "base/onnx/model.h"

#include "base/core/error.h"
#include "base/trace/protobuf.h"

namespace maglev::onnx {
namespace {

using protobuf::put_bytes;
using protobuf::put_float;
using protobuf::put_number;

constexpr size_t kMostBytes = (size_t(1) << 31) - 1;

// AttributeProto: 1 name, 2 f, 3 i, 4 s, 8 ints, 20 type
std::string bytes_of(const Attribute& attribute) {
  enum : uint64_t { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };
  std::string out;
  put_bytes(out, 1, attribute.name);
  if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
    put_number(out, 3, uint64_t(*number));
    put_number(out, 20, kInt);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    put_float(out, 2, *real);
    put_number(out, 20, kFloat);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    put_bytes(out, 4, *text);
    put_number(out, 20, kString);
  } else {
    for (int64_t i : std::get<std::vector<int64_t>>(attribute.value))
      put_number(out, 8, uint64_t(i));
    put_number(out, 20, kInts);
  }
  return out;
}

// NodeProto: 1 input, 2 output, 3 name, 4 op_type, 5 attribute
std::string bytes_of(const Node& node) {
  std::string out;
  for (const std::string& name : node.inputs) put_bytes(out, 1, name);
  for (const std::string& name : node.outputs) put_bytes(out, 2, name);
  // a node is called as what it gives
  put_bytes(out, 3, node.outputs.at(0));
  put_bytes(out, 4, node.operation);
  for (const Attribute& attribute : node.attributes) put_bytes(out, 5, bytes_of(attribute));
  return out;
}

// TensorProto: 1 dims, 2 data_type, 8 name, 9 raw_data
std::string bytes_of(const Tensor& tensor) {
  std::string out;
  for (int64_t size : tensor.shape) put_number(out, 1, uint64_t(size));
  put_number(out, 2, uint64_t(tensor.type));
  put_bytes(out, 8, tensor.name);
  put_bytes(out, 9, tensor.bytes);
  return out;
}

// ValueInfoProto: 1 name, 2 type { 1 tensor_type { 1 elem_type, 2 shape { 1 dim { 1 dim_value,
// 2 dim_param } } } }
std::string bytes_of(const Port& port) {
  std::string shape, tensor, type, out;
  for (const auto& size : port.shape) {
    std::string dim;
    if (const auto* number = std::get_if<int64_t>(&size)) put_number(dim, 1, uint64_t(*number));
    else put_bytes(dim, 2, std::get<std::string>(size));
    put_bytes(shape, 1, dim);
  }
  put_number(tensor, 1, uint64_t(port.type));
  put_bytes(tensor, 2, shape);
  put_bytes(type, 1, tensor);
  put_bytes(out, 1, port.name);
  put_bytes(out, 2, type);
  return out;
}

// GraphProto: 1 node, 2 name, 5 initializer, 11 input, 12 output
std::string graph_bytes(const Model& model) {
  std::string out;
  for (const Node& node : model.nodes) put_bytes(out, 1, bytes_of(node));
  put_bytes(out, 2, model.graph_name);
  for (const Tensor& tensor : model.initializers) put_bytes(out, 5, bytes_of(tensor));
  for (const Port& port : model.inputs) put_bytes(out, 11, bytes_of(port));
  for (const Port& port : model.outputs) put_bytes(out, 12, bytes_of(port));
  return out;
}

}  // namespace

const char* type_name(Type type) {
  switch (type) {
    case Type::f32:
      return "f32";
    case Type::u8:
      return "u8";
    case Type::i8:
      return "i8";
    case Type::i16:
      return "i16";
    case Type::i32:
      return "i32";
    case Type::i64:
      return "i64";
    case Type::boolean:
      return "bool";
    case Type::f16:
      return "f16";
    case Type::f64:
      return "f64";
    case Type::bf16:
      return "bf16";
  }
  return "?";
}

// ModelProto: 1 ir_version, 2 producer_name, 3 producer_version, 6 doc_string, 7 graph,
// 8 opset_import { 1 domain, 2 version }, 14 metadata_props { 1 key, 2 value }
std::string to_bytes(const Model& model) {
  size_t weights = 0;
  for (const Tensor& tensor : model.initializers) weights += tensor.bytes.size();
  if (weights > kMostBytes)
    throw Error("[onnx] the weights are " + std::to_string(weights >> 20) +
                " MiB, and a model in one file holds at most 2 GiB");
  std::string opset, out;
  put_bytes(opset, 1, "");
  put_number(opset, 2, uint64_t(model.opset));
  put_number(out, 1, uint64_t(model.ir_version));
  put_bytes(out, 2, model.producer);
  put_bytes(out, 3, model.producer_version);
  put_bytes(out, 6, model.description);
  put_bytes(out, 7, graph_bytes(model));
  put_bytes(out, 8, opset);
  for (const auto& [key, value] : model.metadata) {
    std::string entry;
    put_bytes(entry, 1, key);
    put_bytes(entry, 2, value);
    put_bytes(out, 14, entry);
  }
  if (out.size() > kMostBytes) throw Error("[onnx] a model in one file holds at most 2 GiB");
  return out;
}

}  // namespace maglev::onnx
