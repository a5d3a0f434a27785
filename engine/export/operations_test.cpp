// What the table makes of operations, and what is refused; whether a runtime computes the same by
// it tests/python/test_export.py says, with onnxruntime.

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/export/graph.h"
#include "tests/close.h"

namespace maglev {
namespace {

using Made = std::function<at::Tensor(const at::Tensor& x)>;

// the graph of what `made` makes of x [rows, 6]
onnx::Model graph_of(const Made& made, const std::map<std::string, at::Tensor>& state = {}) {
  const at::NoGradGuard no_grad;
  RecordedTwice twice;
  const auto of = [&](int64_t rows) {
    const auto x = at::randn({rows, 6});
    return record({x}, [&] { return std::vector<at::Tensor>{made(x)}; });
  };
  twice.few = of(twice.few_rows), twice.more = of(twice.more_rows);
  OnnxGraph graph(twice, {"x"}, state);
  graph.build();
  onnx::Model model;
  graph.finish({"y"}, model);
  return model;
}

std::vector<std::string> operations_of(const Made& made) {
  std::vector<std::string> names;
  for (const onnx::Node& node : graph_of(made).nodes) names.push_back(node.operation);
  names.pop_back();  // what names the output
  return names;
}

std::string refusal_of(const Made& made) {
  try {
    graph_of(made);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

using Names = std::vector<std::string>;

TEST(ExportedOperations, are_those_that_were_called_and_no_more) {
  const auto weight = at::randn({4, 6}), bias = at::randn({4});
  EXPECT_EQ(operations_of([&](const at::Tensor& x) { return at::linear(x, weight, bias).tanh_(); }),
            (Names{"Gemm", "Tanh"}));
  // what does not follow from x is a constant
  EXPECT_EQ(operations_of([&](const at::Tensor& x) { return x - (bias.sum().exp() + 1); }),
            (Names{"Sub"}));
  // what nothing follows from is left out
  EXPECT_EQ(operations_of([&](const at::Tensor& x) {
              at::sigmoid(x);
              return at::relu(x);
            }),
            (Names{"Relu"}));
}

TEST(ExportedOperations, leave_the_number_of_rows_free) {
  const auto model = graph_of([](const at::Tensor& x) {
    return x.reshape({x.size(0), 2, 3}).expand({x.size(0), 2, 3}).flatten(1) + at::zeros_like(x);
  });
  for (const onnx::Tensor& tensor : model.initializers) {
    if (tensor.type != onnx::Type::i64) {
      EXPECT_EQ(tensor.shape.at(0), 1);
      continue;
    }
    const auto* sizes = reinterpret_cast<const int64_t*>(tensor.bytes.data());
    EXPECT_EQ(sizes[0], -1);
  }
  const std::variant<int64_t, std::string> batch = "batch";
  EXPECT_EQ(model.outputs.at(0).shape.at(0), batch);
}

TEST(ExportedOperations, pad_every_dimension_before_and_behind_it) {
  const auto model = graph_of([](const at::Tensor& x) {
    return at::constant_pad_nd(x, {1, 2}, 0.5);
  });
  ASSERT_EQ(model.nodes.at(0).operation, "Pad");
  ASSERT_EQ(model.initializers.size(), 2u);
  const auto* pads = reinterpret_cast<const int64_t*>(model.initializers[0].bytes.data());
  EXPECT_EQ(std::vector<int64_t>(pads, pads + 4), (std::vector<int64_t>{0, 1, 0, 2}));
  EXPECT_EQ(*reinterpret_cast<const float*>(model.initializers[1].bytes.data()), 0.5f);
}

TEST(ExportedOperations, weights_keep_their_names) {
  const auto weight = at::randn({4, 6});
  const auto model = graph_of([&](const at::Tensor& x) { return at::linear(x, weight); },
                              {{"policy.weight", weight}, {"unused", at::zeros({3})}});
  ASSERT_EQ(model.initializers.size(), 1u);
  EXPECT_EQ(model.initializers[0].name, "policy.weight");
}

TEST(ExportedOperations, what_has_no_counterpart_is_named) {
  EXPECT_NE(refusal_of([](const at::Tensor& x) { return at::lgamma(x); }).find("aten::lgamma"),
            std::string::npos);
  EXPECT_NE(refusal_of([](const at::Tensor& x) {
              return x * x.sum().item<float>();
            }).find("reads a number back"),
            std::string::npos);
  EXPECT_NE(refusal_of([](const at::Tensor& x) { return x.narrow(0, 0, 1); }).find("of the rows"),
            std::string::npos);
}

TEST(ExportedOperations, what_onnx_computes_otherwise_is_refused) {
  EXPECT_NE(refusal_of([](const at::Tensor& x) { return at::softplus(x, 5); }).find("beta is not"),
            std::string::npos);
  EXPECT_NE(refusal_of([](const at::Tensor& x) { return at::round(x, 2); }).find("decimals is not"),
            std::string::npos);
  // rows among others that are filled up to a fixed number
  const auto padded = [](const at::Tensor& x) {
    return at::cat({x, at::zeros({16 - x.size(0), 6})}).narrow(0, 0, x.size(0)) + 1;
  };
  EXPECT_NE(refusal_of(padded), "");
  EXPECT_NE(refusal_of([](const at::Tensor& x) {
              return at::constant_pad_nd(x, {0, 0, 0, 1});
            }),
            "");
  // and a number that is read back within another operation
  const auto branches = [](const at::Tensor& x) { return at::allclose(x, x * 2) ? x : x + 1; };
  EXPECT_NE(refusal_of(branches).find("reads a number back"), std::string::npos);
  // a half of the rows is none of so many for each
  EXPECT_NE(refusal_of([](const at::Tensor& x) {
              return x.narrow(0, 0, x.size(0) / 2).sum(0) + at::zeros({1});
            }),
            "");
}

TEST(ExportedOperations, what_something_else_wrote_is_found) {
  const auto doubled = [](const at::Tensor& x, at::Tensor out) {
    for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
    return out;
  };
  const auto by_new_memory = [&](const at::Tensor& x) { return doubled(x, at::empty_like(x)) + 1; };
  EXPECT_NE(refusal_of(by_new_memory).find("something else than ATen"), std::string::npos);
  const auto in_place = [&](const at::Tensor& x) { return doubled(x, at::tanh(x)) + 1; };
  EXPECT_NE(refusal_of(in_place).find("something else than ATen"), std::string::npos);
  const auto through_a_view = [](const at::Tensor& x) {
    auto y = at::tanh(x);
    y.narrow(1, 0, 2).zero_();
    return y + 1;
  };
  EXPECT_NE(refusal_of(through_a_view).find("a view of"), std::string::npos);
}

}  // namespace
}  // namespace maglev
