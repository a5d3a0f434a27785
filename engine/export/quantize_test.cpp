// What becomes 8 bits and what does not; that a runtime computes the same by it, and that a policy
// still plays, says tests/python/test_export_int8.py, with onnxruntime.

#include "engine/export/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev {
namespace {

using Numbers = std::vector<float>;

Numbers drawn(int64_t count, float deviation, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal(0, deviation);
  Numbers numbers(size_t(count), 0);
  for (float& x : numbers) x = normal(gen);
  return numbers;
}

onnx::Tensor weights_named(const std::string& name, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  const Numbers numbers = drawn(count, 0.1f, unsigned(count));
  return {name, onnx::Type::f32, std::move(shape),
          std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4)};
}

onnx::Node gemm(const std::string& x, const std::string& weight, const std::string& y) {
  return {"Gemm", {x, weight, "bias"}, {y}, {{"transB", int64_t(1)}}};
}

// observations, two hidden layers and a head, each large enough
onnx::Model layered() {
  onnx::Model model;
  model.inputs = {{"vector", onnx::Type::f32, {"batch", int64_t(128)}}};
  model.outputs = {{"action", onnx::Type::f32, {"batch", int64_t(128)}}};
  for (const char* name : {"w0", "w1", "w2"})
    model.initializers.push_back(weights_named(name, {128, 128}));
  model.initializers.push_back(weights_named("bias", {128}));
  model.nodes = {gemm("vector", "w0", "a"), {"Tanh", {"a"}, {"b"}},
                 gemm("b", "w1", "c"),      {"Tanh", {"c"}, {"d"}},
                 gemm("d", "w2", "e"),      {"Identity", {"e"}, {"action"}}};
  return model;
}

std::vector<std::string> products_of(const onnx::Model& model) {
  std::vector<std::string> weights;
  for (const onnx::Node& node : model.nodes)
    if (node.operation == "MatMulInteger") weights.push_back(node.inputs[1]);
  return weights;
}

const onnx::Tensor* find_constant(const onnx::Model& model, const std::string& name) {
  const auto found = std::ranges::find(model.initializers, name, &onnx::Tensor::name);
  return found == model.initializers.end() ? nullptr : &*found;
}

TEST(QuantizedWeights, are_half_a_scale_off_at_most_and_fit_pairs_of_16_bits) {
  constexpr int64_t K = 70, N = 9;
  const Numbers weights = drawn(2 * K * N, 0.3f, 1);
  const auto made = quantized_weights(weights, K, N);
  ASSERT_EQ(made.scales.size(), size_t(2 * N));
  for (size_t i = 0; i < weights.size(); ++i) {
    const float scale = made.scales[i / (K * N) * N + i % N];
    EXPECT_LE(std::abs(int(made.numbers[i])), 64);
    EXPECT_LE(std::abs(made.numbers[i] * scale - weights[i]), scale * 0.5001f);
  }
  // of each column the greatest is used up
  for (size_t n = 0; n < size_t(2 * N); ++n) {
    int most = 0;
    for (size_t k = 0; k < K; ++k)
      most = std::max(most, std::abs(int(made.numbers[(n / N * K + k) * N + n % N])));
    EXPECT_EQ(most, 64);
  }
}

TEST(QuantizedWeights, a_column_of_zeros_is_zeros_of_scale_one) {
  const Numbers weights{0, 1, 1e-42f, 0, -0.5f, 0};
  const auto made = quantized_weights(weights, 2, 3);
  EXPECT_EQ(made.numbers, (std::vector<int8_t>{0, 64, 0, 0, -32, 0}));
  EXPECT_EQ(made.scales, (Numbers{1, 1 / 64.f, 1}));
}

TEST(QuantizedWeights, a_weight_that_is_not_finite_is_refused_by_its_name) {
  onnx::Model model = layered();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  model.initializers[1].bytes.replace(40, 4, reinterpret_cast<const char*>(&nan), 4);
  try {
    quantize(model, {"vector"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not finite: w1"), std::string::npos) << error.what();
  }
}

// x [K] rounded as DynamicQuantizeLinear does, times 8-bit weights
TEST(Quantized, a_product_is_as_far_off_as_its_roundings_and_no_farther) {
  constexpr int64_t K = 200, N = 80;
  const Numbers x = drawn(K, 1, 2), weights = drawn(K * N, 0.1f, 3);
  const auto made = quantized_weights(weights, K, N);
  const float low = std::min(0.f, *std::ranges::min_element(x)),
              high = std::max(0.f, *std::ranges::max_element(x));
  const float step = (high - low) / 255;
  const int zero = int(std::nearbyint(-low / step));
  float farthest = 0;
  for (int64_t n = 0; n < N; ++n) {
    double exact = 0, bound = 0;
    int64_t sum = 0;
    const float scale = made.scales[size_t(n)];
    for (int64_t k = 0; k < K; ++k) {
      const int rounded = std::clamp(int(std::nearbyint(x[size_t(k)] / step)) + zero, 0, 255);
      const int weight = made.numbers[size_t(k * N + n)];
      sum += int64_t(rounded - zero) * weight;
      exact += double(x[size_t(k)]) * weights[size_t(k * N + n)];
      // the zero is rounded too: at an end a number is up to a whole step off
      bound += std::abs(x[size_t(k)]) * scale / 2 + std::abs(weight * scale) * step;
    }
    const double off = std::abs(double(sum) * step * scale - exact);
    EXPECT_LE(off, bound * 1.001);
    farthest = std::max(farthest, float(off));
  }
  // the sum's deviation is sqrt(200) * 0.1: of it two in a hundred
  EXPECT_LT(farthest, 0.02f * std::sqrt(float(K)) * 0.1f * 3);
  EXPECT_GT(farthest, 0);
}

TEST(Quantized, hidden_layers_are_in_8_bits_the_first_and_the_last_stay) {
  onnx::Model model = layered();
  const Quantized made = quantize(model, {"vector"});
  EXPECT_EQ(products_of(model), (std::vector<std::string>{"w1_transposed_int8"}));
  EXPECT_EQ(made.products, 1);
  EXPECT_EQ(made.weights, 128 * 128);
  EXPECT_EQ(made.first, 1);
  EXPECT_EQ(made.last, 1);
  EXPECT_EQ(made.f32_weights, 2 * 128 * 128);
  // weights in f32 that nothing takes any more are gone
  EXPECT_EQ(find_constant(model, "w1"), nullptr);
  EXPECT_NE(find_constant(model, "w0"), nullptr);
  const onnx::Tensor* scale = find_constant(model, "w1_transposed_int8_scale");
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->shape, (std::vector<int64_t>{128}));
  EXPECT_EQ(model.outputs.at(0).name, "action");
  // what is not measured, such as what a model remembers, is rounded as hidden layers are
  onnx::Model bounded = layered();
  EXPECT_EQ(quantize(bounded, {}).products, 2);
}

TEST(Quantized, small_products_stay) {
  onnx::Model model = layered();
  model.initializers[1] = weights_named("w1", {128, 64});
  EXPECT_EQ(quantize(model, {"vector"}).small, 1);
  EXPECT_TRUE(products_of(model).empty());
  // narrow ones too, however long
  model = layered();
  model.initializers[1] = weights_named("w1", {4096, 63});
  EXPECT_EQ(quantize(model, {"vector"}).small, 1);
}

TEST(Quantized, weights_are_turned_as_the_product_takes_them) {
  onnx::Model model = layered();
  model.initializers[1] = weights_named("w1", {128, 256});  // [N, K]
  const onnx::Tensor before = model.initializers[1];
  quantize(model, {"vector"});
  const onnx::Tensor* after = find_constant(model, "w1_transposed_int8");
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->shape, (std::vector<int64_t>{256, 128}));
  const auto* from = reinterpret_cast<const float*>(before.bytes.data());
  const auto* to = reinterpret_cast<const int8_t*>(after->bytes.data());
  const auto* scales = reinterpret_cast<const float*>(
      find_constant(model, "w1_transposed_int8_scale")->bytes.data());
  for (int64_t n = 0; n < 128; ++n)
    for (int64_t k = 0; k < 256; ++k)
      ASSERT_NEAR(to[k * 128 + n] * scales[n], from[n * 256 + k], scales[n] * 0.51f);
}

TEST(Quantized, what_two_products_take_is_rounded_once) {
  onnx::Model model = layered();
  model.initializers.push_back(weights_named("w3", {128, 128}));
  model.nodes.insert(model.nodes.begin() + 3, gemm("b", "w3", "other"));
  model.nodes[4].inputs = {"other"};
  model.nodes.insert(model.nodes.begin() + 5, {"Add", {"d", "c"}, {"sum"}});
  model.nodes[6].inputs[0] = "sum";
  EXPECT_EQ(quantize(model, {"vector"}).products, 2);
  EXPECT_EQ(std::ranges::count(model.nodes, "DynamicQuantizeLinear", &onnx::Node::operation), 1);
}

TEST(Quantized, products_of_several_matrices_and_of_turned_weights_count_too) {
  onnx::Model model = layered();
  model.initializers.push_back(weights_named("blocks", {4, 128, 96}));
  model.nodes[2] = {"MatMul", {"b", "turned"}, {"c"}};
  model.nodes.insert(model.nodes.begin(),
                     {"Transpose", {"w1"}, {"turned"}, {{"perm", std::vector<int64_t>{1, 0}}}});
  model.nodes.insert(model.nodes.begin() + 5, {"MatMul", {"d", "blocks"}, {"f"}});
  model.nodes.insert(model.nodes.begin() + 6, {"ReduceSum", {"f"}, {"g"}});
  model.nodes[7].inputs[0] = "g";
  EXPECT_EQ(quantize(model, {"vector"}).products, 2);
  EXPECT_EQ(products_of(model), (std::vector<std::string>{"w1_transposed_int8", "blocks_int8"}));
  EXPECT_EQ(find_constant(model, "blocks_int8_scale")->shape, (std::vector<int64_t>{4, 1, 96}));
  EXPECT_EQ(std::ranges::count(model.nodes, "Transpose", &onnx::Node::operation), 0);
}

TEST(Quantized, the_number_of_rows_is_not_measured) {
  onnx::Model model = layered();
  model.inputs.push_back({"memory", onnx::Type::f32, {"batch", int64_t(128)}});
  model.nodes[0] = {"Shape", {"vector"}, {"rows"}};
  model.nodes[1] = {"Reshape", {"memory", "rows"}, {"b"}};
  EXPECT_EQ(quantize(model, {"vector"}).products, 1);
}

}  // namespace
}  // namespace maglev
