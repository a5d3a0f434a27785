#include "kernels/mlp/mlp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/bfloat16.h"
#include "base/core/philox.h"
#include "base/simd/pairs.h"

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
  uint32_t* words() { return reinterpret_cast<uint32_t*>(data()); }
  int64_t size() const { return count_; }

 private:
  std::vector<Line> lines_;
  int64_t count_;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

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

  /// Every layer's products by pairs of bfloat16 from now on.
  void take_pairs() {
    pairs.reserve(2 * layers.size());
    for (DenseLayer& layer : layers) {
      const auto words = [&](int64_t out, int64_t in) {
        return pairs.emplace_back(pair_blocks_size(out, words_of_features(in)), kNan).words();
      };
      layer.pairs.forward = words(layer.out, layer.in);
      layer.pairs.back = words(layer.in, layer.out);
      for (PairSide side : {PairSide::forward, PairSide::back}) round_to_pairs(layer, side);
    }
  }
  std::vector<Floats> pairs;
};

struct Pass {
  int64_t rows, stride;
  Floats x, dx, scratch;
  std::vector<Floats> y, dy, slope;
  std::vector<float*> y_at, dy_at, slope_at;
  std::vector<Floats> words;
  std::vector<uint32_t*> words_at;
  Floats pair_scratch{0};

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
    int64_t most = 0;
    for (const DenseLayer& layer : s.layers) {
      words.emplace_back(words_of_features(layer.in) * stride, kNan);
      if (layer.pairs.forward) most = std::max(most, pair_scratch_size(layer.in, layer.out));
    }
    for (Floats& w : words) words_at.push_back(w.words());
    pair_scratch = Floats(most, kNan);
    for (int64_t f = 0; f < s.sizes.back(); ++f)
      for (int64_t r = 0; r < rows; ++r) dy.back()[f * stride + r] = std::cos(float(f * 5 + r * 3));
  }

  void forward(const Stack& s) {
    mlp_forward_cpu({.layers = s.layers,
                     .x = x.data(),
                     .y = y_at.data(),
                     .slope = slope_at.data(),
                     .stride = stride,
                     .rows = rows,
                     .words = words_at.data()});
  }
  void backward(const Stack& s, int64_t dx_features = 0) {
    mlp_backward_cpu({.layers = s.layers,
                      .grad = s.grads,
                      .x = x.data(),
                      .y = y_at.data(),
                      .slope = slope_at.data(),
                      .dy = dy_at.data(),
                      .dx = dx.data(),
                      .dx_features = dx_features > 0 ? dx_features : s.sizes[0],
                      .scratch = scratch.data(),
                      .stride = stride,
                      .rows = rows,
                      .words = words_at.data(),
                      .pair_scratch = pair_scratch.words()});
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

double rounded(float x) {
  const uint32_t bits = uint32_t(bfloat16_bits(x)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// layer by layer in f64 from what the kernel gave the layer, rounded as the kernel says it rounds:
// weights, inputs and d loss / d z to nearest even, nothing else
void expect_pairs(Stack s, int64_t rows, int64_t dx_features) {
  s.take_pairs();
  Pass run(s, rows);
  // what lay there before is no part of the result, also behind the last row
  for (Floats& y : run.y) std::fill_n(y.data(), y.size(), kNan);
  run.forward(s), run.backward(s, dx_features);
  for (size_t l = 0; l < s.layers.size(); ++l) {
    const auto [in, out] = std::pair(s.layers[l].in, s.layers[l].out);
    Floats &x = l ? run.y[l - 1] : run.x, &dz = run.dy[l], &dx = l ? run.dy[l - 1] : run.dx;
    const auto weight = [&, in = in](int64_t o, int64_t i) {
      return rounded(s.weight[l][o * in + i]);
    };
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        double z = s.bias[l][o];
        for (int64_t i = 0; i < in; ++i) z += weight(o, i) * rounded(x[i * run.stride + r]);
        ASSERT_NEAR(run.y[l][o * run.stride + r], apply(s.layers[l].activation, z), 2e-5)
            << "layer " << l << " row " << r;
      }
      for (int64_t i = 0; i < (l ? in : dx_features); ++i) {
        double sum = 0;
        for (int64_t o = 0; o < out; ++o) sum += weight(o, i) * rounded(dz[o * run.stride + r]);
        // tanh's slope from what it gave
        const double y = x[i * run.stride + r];
        ASSERT_NEAR(dx[i * run.stride + r], l ? sum * (1 - y * y) : sum, 1e-4)
            << "layer " << l << " row " << r;
      }
    }
    for (int64_t o = 0; o < out; ++o) {
      double bias = 0;
      for (int64_t r = 0; r < rows; ++r) bias += dz[o * run.stride + r];
      ASSERT_NEAR(s.grad_bias[l][o], bias, 1e-4);
      for (int64_t i = 0; i < in; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r)
          sum += rounded(dz[o * run.stride + r]) * rounded(x[i * run.stride + r]);
        ASSERT_NEAR(s.grad_weight[l][o * in + i], sum, 1e-4) << "layer " << l;
      }
    }
  }
}

TEST(Mlp, pairs_of_bfloat16_round_operands_and_nothing_else) {
  if (!pair_products_available()) GTEST_SKIP() << "this processor has no products of pairs";
  for (int64_t rows : {1, 7, 16, 17, 33, 64}) {
    SCOPED_TRACE("rows " + std::to_string(rows));
    expect_pairs(Stack({16, 16}, Activation::none), rows, 16);
    expect_pairs(Stack({37, 64, 19}, Activation::tanh), rows, 5);
    expect_pairs(Stack({64, 33, 70, 17}, Activation::tanh), rows, 64);
  }
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

TEST(Mlp, what_is_not_a_number_stays_so_through_every_activation) {
  // one row's input; its neighbours know nothing of it
  for (auto activation : {Activation::tanh, Activation::relu, Activation::silu}) {
    const Stack s({5, 33, 64, 3}, activation);
    Pass run(s, 20);
    run.x[2 * run.stride + 7] = kNan;
    run.forward(s);
    for (size_t l = 0; l < run.y.size(); ++l)
      for (int64_t o = 0; o < s.layers[l].out; ++o)
        for (int64_t r = 0; r < run.rows; ++r)
          ASSERT_EQ(std::isnan(run.y[l][o * run.stride + r]), r == 7)
              << "layer " << l << " output " << o << " row " << r;
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
