#include "engine/export/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/core/error.h"

namespace maglev {
namespace {

using NameSet = std::set<std::string>;

bool is_product(const onnx::Node& node) {
  return node.operation == "Gemm" || node.operation == "MatMul" || node.operation == "Conv";
}

bool any_in(const std::vector<std::string>& names, const NameSet& set) {
  return std::ranges::any_of(names, [&](const std::string& name) { return set.contains(name); });
}

// what the measured inputs become before the first product
NameSet before_products(const onnx::Model& model, const std::vector<std::string>& measured) {
  NameSet reached(measured.begin(), measured.end());
  for (const onnx::Node& node : model.nodes)
    // the number of rows is none of their numbers
    if (!is_product(node) && node.operation != "Shape" && any_in(node.inputs, reached))
      reached.insert(node.outputs.begin(), node.outputs.end());
  return reached;
}

// what the outputs are made of behind the last product
NameSet behind_products(const onnx::Model& model) {
  NameSet reached;
  for (const onnx::Port& port : model.outputs) reached.insert(port.name);
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node)
    if (!is_product(*node) && any_in(node->outputs, reached))
      reached.insert(node->inputs.begin(), node->inputs.end());
  return reached;
}

/// Constant weights of a product: x [..., K] times them [..., K, N].
struct ConstantFactor {
  const onnx::Tensor* tensor;
  bool turned;  ///< as they lie they are [N, K]
  int64_t K, N;
};

/// Constants of a model, and those it transposes before use, by name.
class Constants {
 public:
  explicit Constants(const onnx::Model& model) {
    for (const onnx::Tensor& tensor : model.initializers) tensors_[tensor.name] = &tensor;
    for (const onnx::Node& node : model.nodes)
      if (node.operation == "Transpose") turned_[node.outputs[0]] = node.inputs[0];
  }

  /// None: the node is no product of an activation and a constant in f32.
  std::optional<ConstantFactor> factor_of(const onnx::Node& node) const {
    if (node.operation == "Gemm") {
      const auto* turned = node.attributes.size() == 1 && node.attributes[0].name == "transB"
                               ? std::get_if<int64_t>(&node.attributes[0].value)
                               : nullptr;
      if (!turned || *turned != 1) return std::nullopt;
      return factor(node.inputs[1], true);
    }
    if (node.operation != "MatMul") return std::nullopt;
    const auto turned = turned_.find(node.inputs[1]);
    if (turned == turned_.end()) return factor(node.inputs[1], false);
    return factor(turned->second, true);
  }

 private:
  std::optional<ConstantFactor> factor(const std::string& name, bool turned) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end() || found->second->type != onnx::Type::f32) return std::nullopt;
    const auto& shape = found->second->shape;
    // of more dimensions a transpose may be any
    if (shape.size() < 2 || (turned && shape.size() != 2)) return std::nullopt;
    const int64_t rows = shape[shape.size() - 2], columns = shape.back();
    return ConstantFactor{found->second, turned, turned ? columns : rows, turned ? rows : columns};
  }

  std::map<std::string, const onnx::Tensor*> tensors_;
  std::map<std::string, std::string> turned_;
};

std::vector<float> numbers_in_order(const ConstantFactor& factor) {
  std::vector<float> numbers(factor.tensor->bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), factor.tensor->bytes.data(), numbers.size() * sizeof(float));
  if (!factor.turned) return numbers;
  std::vector<float> turned(numbers.size());
  for (int64_t n = 0; n < factor.N; ++n)
    for (int64_t k = 0; k < factor.K; ++k)
      turned[size_t(k * factor.N + n)] = numbers[size_t(n * factor.K + k)];
  return turned;
}

template <class Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// A model's nodes anew, products in 8 bits among them.
class Rewritten {
 public:
  explicit Rewritten(onnx::Model& model) : model_(model) {}

  void keep(onnx::Node node) { nodes_.push_back(std::move(node)); }

  void add(const onnx::Node& product, const ConstantFactor& factor) {
    const std::string &x = product.inputs[0], &y = product.outputs[0];
    // once for all that take x
    if (rounded_.insert(x).second)
      keep({"DynamicQuantizeLinear", {x}, {x + "_u8", x + "_u8_scale", x + "_u8_zero"}});
    const std::string weights = weights_of(factor);
    // what runtimes know as one operation, in this order (ONNX Runtime's DynamicQuantizeMatMul)
    keep({"MatMulInteger", {x + "_u8", weights, x + "_u8_zero"}, {y + "_i32"}});
    keep({"Cast", {y + "_i32"}, {y + "_whole"}, {{"to", int64_t(onnx::Type::f32)}}});
    keep({"Mul", {x + "_u8_scale", weights + "_scale"}, {y + "_unit"}});
    const bool bias = product.inputs.size() > 2;
    keep({"Mul", {y + "_whole", y + "_unit"}, {bias ? y + "_unbiased" : y}});
    if (bias) keep({"Add", {y + "_unbiased", product.inputs[2]}, {y}});
  }

  /// Puts them in place, without what no output needs any more.
  void finish() {
    NameSet needed;
    for (const onnx::Port& port : model_.outputs) needed.insert(port.name);
    model_.nodes.clear();
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
      if (any_in(node->outputs, needed)) {
        needed.insert(node->inputs.begin(), node->inputs.end());
        model_.nodes.push_back(std::move(*node));
      }
    std::ranges::reverse(model_.nodes);
    std::erase_if(model_.initializers,
                  [&](const onnx::Tensor& tensor) { return !needed.contains(tensor.name); });
    for (onnx::Tensor& tensor : weights_) model_.initializers.push_back(std::move(tensor));
  }

 private:
  std::string weights_of(const ConstantFactor& factor) {
    const onnx::Tensor& tensor = *factor.tensor;
    const std::string name = tensor.name + (factor.turned ? "_transposed" : "") + "_int8";
    if (!named_.insert(name).second) return name;
    QuantizedWeights made;
    try {
      made = quantized_weights(numbers_in_order(factor), factor.K, factor.N);
    } catch (const Error& error) {
      throw Error(std::string(error.what()) + ": " + tensor.name);
    }
    std::vector<int64_t> shape = tensor.shape;
    shape.end()[-2] = factor.K, shape.end()[-1] = factor.N;
    weights_.push_back({name, onnx::Type::i8, shape, bytes_of_numbers(made.numbers)});
    // of plain matrices a scale a column, which is how runtimes look for them
    if (shape.size() == 2) shape = {factor.N};
    else shape.end()[-2] = 1;
    weights_.push_back({name + "_scale", onnx::Type::f32, shape, bytes_of_numbers(made.scales)});
    return name;
  }

  onnx::Model& model_;
  std::vector<onnx::Node> nodes_;
  std::vector<onnx::Tensor> weights_;
  NameSet rounded_, named_;
};

}  // namespace

QuantizedWeights quantized_weights(std::span<const float> weights, int64_t K, int64_t N) {
  MAGLEV_ASSERT(K > 0 && N > 0 && int64_t(weights.size()) % (K * N) == 0, "whole matrices");
  const int64_t matrices = int64_t(weights.size()) / (K * N);
  QuantizedWeights made;
  made.numbers.resize(weights.size());
  made.scales.assign(size_t(matrices * N), 0);
  for (int64_t m = 0; m < matrices; ++m) {
    const float* from = weights.data() + m * K * N;
    float* scales = made.scales.data() + m * N;
    for (int64_t k = 0; k < K; ++k)
      for (int64_t n = 0; n < N; ++n) {
        const float weight = from[k * N + n];
        if (!std::isfinite(weight)) throw Error("[export] a weight is not finite");
        scales[n] = std::max(scales[n], std::abs(weight));
      }
    for (int64_t n = 0; n < N; ++n) {
      scales[n] /= float(kMostQuantizedWeight);
      if (scales[n] < std::numeric_limits<float>::min()) scales[n] = 0;
    }
    for (int64_t k = 0; k < K; ++k)
      for (int64_t n = 0; n < N; ++n)
        made.numbers[size_t((m * K + k) * N + n)] =
            scales[n] > 0 ? int8_t(std::lround(from[k * N + n] / scales[n])) : int8_t(0);
  }
  // a scale that is none would be read as infinitely fine
  std::ranges::replace(made.scales, 0.f, 1.f);
  return made;
}

Quantized quantize(onnx::Model& model, const std::vector<std::string>& measured) {
  const NameSet before = before_products(model, measured), behind = behind_products(model);
  const Constants constants(model);
  Rewritten rewritten(model);
  Quantized made;
  for (const onnx::Node& node : model.nodes) {
    const auto factor = constants.factor_of(node);
    if (!factor) {
      rewritten.keep(node);
      continue;
    }
    const auto count = int64_t(factor->tensor->bytes.size() / sizeof(float));
    const bool small =
        count < kLeastQuantizedWeights || std::min(factor->K, factor->N) < kLeastQuantizedSide;
    const bool first = before.contains(node.inputs[0]), last = behind.contains(node.outputs[0]);
    if (small || first || last) {
      rewritten.keep(node);
      ++(small ? made.small : first ? made.first : made.last);
      made.f32_weights += count;
      continue;
    }
    rewritten.add(node, *factor);
    ++made.products, made.weights += count;
  }
  rewritten.finish();
  return made;
}

}  // namespace maglev
