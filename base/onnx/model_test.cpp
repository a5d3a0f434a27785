// The bytes against what protobuf makes of the same messages; tests/python/test_export.py reads
// whole models with onnx's own reader.

#include "base/onnx/model.h"

#include <string>

#include <gtest/gtest.h>

namespace maglev::onnx {
namespace {

Model small_model() {
  Model model;
  model.producer = "p", model.producer_version = "1", model.graph_name = "g";
  model.nodes.push_back({"Add", {"x", "w"}, {"y"}, {{"axis", int64_t(-1)}}});
  model.initializers.push_back({"w", Type::u8, {2}, std::string("\1\2", 2)});
  model.inputs.push_back({"x", Type::u8, {"batch", int64_t(2)}});
  model.outputs.push_back({"y", Type::u8, {"batch", int64_t(2)}});
  model.metadata.push_back({"k", "v"});
  return model;
}

TEST(Onnx, a_model_has_protobufs_bytes) {
  const auto port = [](const std::string& name) {
    // name, type { tensor_type { u8, shape { batch, 2 } } }
    return "\x0a\x01" + name + "\x12\x13\x0a\x11\x08\x02\x12\x0d\x0a\x07\x12\x05" + "batch" +
           "\x0a\x02\x08\x02";
  };
  const std::string attribute =
      std::string("\x0a\x04") + "axis" + "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xa0\x01\x02";
  const std::string node = std::string("\x0a\x01x\x0a\x01w\x12\x01y\x1a\x01y\x22\x03") + "Add" +
                           "\x2a" + char(attribute.size()) + attribute;
  const std::string graph = "\x0a" + std::string(1, char(node.size())) + node + "\x12\x01g" +
                            "\x2a\x0b\x08\x02\x10\x02\x42\x01w\x4a\x02\x01\x02" + "\x5a\x18" +
                            port("x") + "\x62\x18" + port("y");
  const std::string expected = std::string(
                                   "\x08\x08\x12\x01p\x1a\x01"
                                   "1"
                                   "\x32",
                                   9) +
                               std::string(1, '\0') + "\x3a" + char(graph.size()) + graph +
                               std::string("\x42\x04\x0a\x00\x10\x11", 6) +
                               "\x72\x06\x0a\x01k\x12\x01v";
  EXPECT_EQ(to_bytes(small_model()), expected);
}

TEST(Onnx, attributes_carry_their_kind) {
  Model model = small_model();
  model.nodes[0].attributes = {{"a", 0.5f}, {"b", "text"}, {"c", std::vector<int64_t>{1, 2}}};
  const std::string bytes = to_bytes(model);
  const std::string a(
      "\x0a\x01"
      "a"
      "\x15\0\0\0\x3f\xa0\x01\x01",
      11);
  const std::string b(
      "\x0a\x01"
      "b"
      "\x22\x04text\xa0\x01\x03",
      12);
  const std::string c(
      "\x0a\x01"
      "c"
      "\x40\x01\x40\x02\xa0\x01\x07",
      10);
  for (const std::string& one : {a, b, c}) EXPECT_NE(bytes.find(one), std::string::npos);
}

}  // namespace
}  // namespace maglev::onnx
