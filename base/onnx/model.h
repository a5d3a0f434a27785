#pragma once
// ONNX models: graphs of named operations on tensors, as onnx.proto writes them down. Data alone;
// what the operations mean is the runtime's.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace maglev::onnx {

/// TensorProto.DataType.
enum class Type : int32_t {
  f32 = 1,
  u8 = 2,
  i8 = 3,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  bf16 = 16
};

/// "f32", "u8", ... for people.
const char* type_name(Type type);

/// A tensor whose numbers are in the file.
struct Tensor {
  std::string name;
  Type type = Type::f32;
  std::vector<int64_t> shape;
  std::string bytes;  ///< little-endian, row-major
};

struct Attribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>> value;
};

struct Node {
  std::string operation;            ///< "Gemm"
  std::vector<std::string> inputs;  ///< "" leaves an optional one out
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes = {};
};

/// An input or output of the graph.
struct Port {
  std::string name;
  Type type = Type::f32;
  /// A number, or a name that stands for the same number wherever it is.
  std::vector<std::variant<int64_t, std::string>> shape;
};

struct Model {
  int64_t ir_version = 8, opset = 17;
  std::string producer, producer_version;
  std::string graph_name, description;
  std::vector<Node> nodes;  ///< each behind those whose outputs it takes
  std::vector<Tensor> initializers;
  std::vector<Port> inputs, outputs;
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// The file. Throws Error at 2 GB, which protobuf does not hold.
std::string to_bytes(const Model& model);

}  // namespace maglev::onnx
