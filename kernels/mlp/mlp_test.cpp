#include "kernels/mlp/mlp.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

struct alignas(64) Line {
  float f[16];
};

// 64-byte aligned floats
class Floats {
 public:
  explicit Floats(int64_t count, float fill = 0) : lines_(size_t(count + 15) / 16), count_(count) {
    for (int64_t i = 0; i < count; ++i) data()[i] = fill;
  }
  float* data() { return lines_.data()->f; }
  float& operator[](int64_t i) { return data()[i]; }
  int64_t size() const { return count_; }

 private:
  std::vector<Line> lines_;
  int64_t count_;
};

struct Stack {
  std::vector<int64_t> sizes;
  Activation activation;
  std::vector<Floats> weight, bias, grad_weight, grad_bias;
  std::vector<DenseLayer> layers;
  std::vector<DenseGrad> grads;

  Stack(std::vector<int64_t> widths, Activation hidden) : sizes(widths), activation(hidden) {
    Rng rng(3, 1, 0);
    for (size_t l = 0; l + 1 < sizes.size(); ++l) {
      const int64_t in = sizes[l], out = sizes[l + 1];
      weight.emplace_back(in * out), bias.emplace_back(out);
      grad_weight.emplace_back(in * out), grad_bias.emplace_back(out);
      for (int64_t i = 0; i < in * out; ++i)
        weight[l][i] = rng.uniform(-1, 1) * 2 / std::sqrt(float(in));
      for (int64_t i = 0; i < out; ++i) bias[l][i] = rng.uniform(-0.5f, 0.5f);
      layers.push_back({weight[l].data(), bias[l].data(), in, out,
                        l + 2 == sizes.size() ? Activation::none : hidden});
      grads.push_back({grad_weight[l].data(), grad_bias[l].data()});
    }
  }
};

struct Pass {
  int64_t rows, stride;
  Floats x, dx, scratch;
  std::vector<Floats> y, dy, slope;
  std::vector<float*> y_at, dy_at, slope_at;

  Pass(const Stack& s, int64_t rows)
      : rows(rows),
        stride(panel_stride(rows)),
        x(s.sizes[0] * stride),
        dx(s.sizes[0] * stride),
        scratch(kPanelRows * 512) {
    // row r is the same in every panel, whatever its size; padding is anything
    for (int64_t f = 0; f < s.sizes[0]; ++f)
      for (int64_t r = 0; r < stride; ++r)
        x[f * stride + r] = r < rows ? std::sin(float(1 + f * 7 + r * 13)) : 3.f;
    for (size_t l = 1; l < s.sizes.size(); ++l) {
      y.emplace_back(s.sizes[l] * stride, 0.5f), dy.emplace_back(s.sizes[l] * stride);
      slope.emplace_back(s.sizes[l] * stride);
    }
    for (size_t l = 0; l < y.size(); ++l) {
      y_at.push_back(y[l].data()), dy_at.push_back(dy[l].data());
      slope_at.push_back(slope[l].data());
    }
    for (int64_t f = 0; f < s.sizes.back(); ++f)
      for (int64_t r = 0; r < rows; ++r) dy.back()[f * stride + r] = std::cos(float(f * 5 + r * 3));
  }

  void forward(const Stack& s) {
    mlp_forward_cpu({.layers = s.layers,
                     .x = x.data(),
                     .y = y_at.data(),
                     .slope = slope_at.data(),
                     .stride = stride,
                     .rows = rows});
  }
  void backward(const Stack& s) {
    mlp_backward_cpu({.layers = s.layers,
                      .grad = s.grads,
                      .x = x.data(),
                      .y = y_at.data(),
                      .slope = slope_at.data(),
                      .dy = dy_at.data(),
                      .dx = dx.data(),
                      .dx_features = s.sizes[0],
                      .scratch = scratch.data(),
                      .stride = stride,
                      .rows = rows});
  }
};

double apply(Activation a, double z) {
  if (a == Activation::tanh) return std::tanh(z);
  if (a == Activation::relu) return z > 0 ? z : 0;
  return a == Activation::silu ? z / (1 + std::exp(-z)) : z;
}

double derivative(Activation a, double z) {
  if (a == Activation::tanh) return 1 - std::tanh(z) * std::tanh(z);
  if (a == Activation::relu) return z > 0 ? 1 : 0;
  const double share = 1 / (1 + std::exp(-z));
  return a == Activation::silu ? share * (1 + z * (1 - share)) : 1;
}

// forward and backward by the formulas in f64, row by row; expects the panel's to agree
void expect_formulas(Stack s, int64_t rows) {
  Pass run(s, rows);
  Floats given = run.dy.back();
  run.forward(s);
  run.backward(s);
  const size_t count = s.layers.size();
  std::vector<std::vector<double>> grad_weight(count), grad_bias(count);
  for (size_t l = 0; l < count; ++l)
    grad_weight[l].resize(size_t(s.layers[l].in * s.layers[l].out)),
        grad_bias[l].resize(size_t(s.layers[l].out));
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<std::vector<double>> value{{}}, sum(count);
    for (int64_t f = 0; f < s.sizes[0]; ++f) value[0].push_back(run.x[f * run.stride + r]);
    for (size_t l = 0; l < count; ++l) {
      value.emplace_back();
      for (int64_t o = 0; o < s.layers[l].out; ++o) {
        double z = s.bias[l][o];
        for (int64_t i = 0; i < s.layers[l].in; ++i)
          z += double(s.weight[l][o * s.layers[l].in + i]) * value[l][size_t(i)];
        sum[l].push_back(z);
        value[l + 1].push_back(apply(s.layers[l].activation, z));
        ASSERT_NEAR(run.y[l][o * run.stride + r], value[l + 1].back(), 2e-5);
      }
    }
    std::vector<double> dy;
    for (int64_t o = 0; o < s.sizes.back(); ++o) dy.push_back(given[o * run.stride + r]);
    for (size_t l = count; l-- > 0;) {
      std::vector<double> dx(size_t(s.layers[l].in), 0);
      for (int64_t o = 0; o < s.layers[l].out; ++o) {
        const double dz = dy[size_t(o)] * derivative(s.layers[l].activation, sum[l][size_t(o)]);
        grad_bias[l][size_t(o)] += dz;
        for (int64_t i = 0; i < s.layers[l].in; ++i) {
          const int64_t at = o * s.layers[l].in + i;
          grad_weight[l][size_t(at)] += dz * value[l][size_t(i)];
          dx[size_t(i)] += dz * s.weight[l][at];
        }
      }
      dy = dx;
    }
    for (int64_t f = 0; f < s.sizes[0]; ++f)
      ASSERT_NEAR(run.dx[f * run.stride + r], dy[size_t(f)], 1e-4) << "input gradient, row " << r;
  }
  for (size_t l = 0; l < count; ++l) {
    for (size_t i = 0; i < grad_weight[l].size(); ++i)
      ASSERT_NEAR(s.grad_weight[l][int64_t(i)], grad_weight[l][i],
                  1e-4 * (1 + std::abs(grad_weight[l][i])));
    for (size_t i = 0; i < grad_bias[l].size(); ++i)
      ASSERT_NEAR(s.grad_bias[l][int64_t(i)], grad_bias[l][i],
                  1e-4 * (1 + std::abs(grad_bias[l][i])));
  }
}

TEST(Mlp, forward_and_gradients_are_those_of_the_formulas) {
  for (auto activation : {Activation::tanh, Activation::relu, Activation::silu})
    for (int64_t rows : {1, 3, 8, 9, 16, 17, 40, 64}) {
      SCOPED_TRACE("rows " + std::to_string(rows));
      expect_formulas(Stack({4, 64, 64, 2}, activation), rows);
      expect_formulas(Stack({3, 17, 1}, activation), rows);
      expect_formulas(Stack({37, 5, 70, 19}, activation), rows);
    }
  expect_formulas(Stack({9, 2}, Activation::none), 33);
  expect_formulas(Stack({300, 7}, Activation::none), 33);
}

TEST(Mlp, a_row_has_the_same_bits_whatever_rows_come_with_it) {
  const Stack s({5, 33, 64, 3}, Activation::tanh);
  Pass full(s, 64);
  full.forward(s);
  for (int64_t rows : {1, 2, 8, 15, 16, 31, 48, 63}) {
    Pass part(s, rows);
    part.forward(s);
    for (int64_t f = 0; f < 3; ++f)
      for (int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(part.y.back()[f * part.stride + r], full.y.back()[f * full.stride + r])
            << rows << " rows, row " << r;
  }
}

TEST(Mlp, gradients_are_added_to_what_is_there) {
  Stack s({4, 8, 2}, Activation::tanh);
  Pass first(s, 20);
  first.forward(s), first.backward(s);
  std::vector<Floats> once = s.grad_weight;
  Pass second(s, 20);
  second.forward(s), second.backward(s);
  for (size_t l = 0; l < once.size(); ++l)
    for (int64_t i = 0; i < once[l].size(); ++i)
      ASSERT_FLOAT_EQ(s.grad_weight[l][i], 2 * once[l][i]);
}

}  // namespace
}  // namespace maglev
