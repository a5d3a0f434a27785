#include "engine/nn/laprop.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <gtest/gtest.h>

#include "engine/run/snapshot.h"
#include "tests/close.h"

namespace maglev {
namespace {

constexpr int64_t kWeights = 12, kBiases = 4, kZeros = 5;

/// Two tensors, and one that begins at zero as a value network's output does.
struct ThreeTensors : torch::nn::Module {
  ThreeTensors() {
    register_parameter("weight", at::randn({3, 4}));
    register_parameter("bias", at::randn({kBiases}));
    register_parameter("zeros", at::zeros({kZeros}));
  }
};

struct Stepped {
  explicit Stepped(const LaPropOptions& options, uint64_t seed = 1)
      : module((at::manual_seed(seed), ThreeTensors())),
        params(module),
        optimizer(params, options) {}

  void step(const at::Tensor& grad, double lr, double skip = 0) {
    optimizer.reduce(grad, {}, pool);
    optimizer.clip(at::full({}, skip));
    optimizer.step(at::full({}, lr), pool);
  }

  ThreadPool pool{1};
  ThreeTensors module;
  FlatParams params;
  FlatLaProp optimizer;
};

// the paper's steps on one number after another, in f64
struct Naive {
  std::vector<double> w, m, v;
  int64_t steps = 0;

  explicit Naive(const at::Tensor& start) {
    for (int64_t i = 0; i < start.numel(); ++i) w.push_back(start[i].item<float>());
    m.assign(w.size(), 0), v.assign(w.size(), 0);
  }

  void step(std::vector<double> g, double lr, const LaPropOptions& o) {
    size_t begin = 0;
    for (size_t count : {size_t(kWeights), size_t(kBiases), size_t(kZeros)}) {
      double grad = 0, weight = 0;
      for (size_t i = begin; i < begin + count; ++i) grad += g[i] * g[i], weight += w[i] * w[i];
      const double most = o.clip * std::max(o.least, std::sqrt(weight));
      const double factor = 1 / std::max(1.0, std::sqrt(grad) / most);
      for (size_t i = begin; i < begin + count; ++i) g[i] *= factor;
      begin += count;
    }
    ++steps;
    for (size_t i = 0; i < w.size(); ++i) {
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      const double size = std::sqrt(v[i] / (1 - std::pow(o.beta2, steps))) + o.eps;
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i] / size;
      w[i] -= lr * m[i] / (1 - std::pow(o.beta1, steps));
    }
  }
};

/// On its kernel, and in plain ATen.
class FlatLaPropPath : public testing::TestWithParam<bool> {
 protected:
  LaPropOptions options() const { return {.fused = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Paths, FlatLaPropPath, testing::Bool());

TEST_P(FlatLaPropPath, takes_the_steps_of_its_paper) {
  Stepped run(options());
  Naive naive(run.params.data());
  for (int i = 0; i < 20; ++i) {
    // some gradients are clipped, of the zeros all
    const auto grad = at::randn({run.params.size()}) * (i % 3 == 0 ? 0.01 : 1);
    std::vector<double> g;
    for (int64_t k = 0; k < grad.numel(); ++k) g.push_back(grad[k].item<float>());
    naive.step(g, 0.01, options());
    run.step(grad.clone(), 0.01);
  }
  // twenty steps of some ten roundings each
  EXPECT_TRUE(close(run.params.data(), at::tensor(naive.w).to(at::kFloat),
                    Tolerance::of_sums(20 * (10 + kWeights))));
}

TEST_P(FlatLaPropPath, clips_a_tensor_by_its_own_norm) {
  Stepped run(options());
  const auto before = run.params.data().clone();
  auto grad = at::full({run.params.size()}, 100.f);
  grad.narrow(0, kWeights, kBiases).fill_(1e-4f);
  run.step(grad, 0);
  const auto norm = [](const at::Tensor& x) { return x.norm().item<float>(); };
  EXPECT_NEAR(norm(grad.narrow(0, 0, kWeights)), 0.3 * norm(before.narrow(0, 0, kWeights)), 1e-5);
  EXPECT_EQ(grad[kWeights].item<float>(), 1e-4f);
  // what is 0 counts as a thousandth
  EXPECT_NEAR(norm(grad.narrow(0, kWeights + kBiases, kZeros)), 0.3e-3, 1e-8);
}

TEST_P(FlatLaPropPath, a_step_that_is_left_out_changes_nothing) {
  Stepped run(options());
  run.step(at::randn({run.params.size()}), 0.1);
  const auto hash = [&] {
    return at::cat(
        {run.params.data(), run.optimizer.first_moment(), run.optimizer.second_moment()});
  };
  const auto before = hash();
  run.step(at::randn({run.params.size()}), 0.1, /*skip=*/1);
  EXPECT_TRUE(at::equal(hash(), before));
  auto broken = at::randn({run.params.size()});
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  run.step(broken, 0.1);
  EXPECT_TRUE(at::equal(hash(), before));
  EXPECT_EQ(run.optimizer.nonfinite().item<float>(), 1);
}

TEST_P(FlatLaPropPath, continues_from_what_it_visited) {
  Stepped run(options()), other(options(), /*seed=*/2);
  run.step(at::randn({run.params.size()}), 0.1);
  const StateSnapshot saved([&](StateVisitor& v) { run.optimizer.visit_state(v); });
  saved.restore([&](StateVisitor& v) { other.optimizer.visit_state(v); });
  other.params.data().copy_(run.params.data());
  const auto grad = at::randn({run.params.size()});
  run.step(grad.clone(), 0.1), other.step(grad.clone(), 0.1);
  EXPECT_TRUE(at::equal(run.params.data(), other.params.data()));
}

}  // namespace
}  // namespace maglev
