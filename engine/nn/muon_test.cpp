#include "engine/nn/muon.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include <gtest/gtest.h>

#include "tests/close.h"

namespace maglev {
namespace {

struct Network : torch::nn::Module {
  Network() {
    at::manual_seed(4);
    hidden = register_module("hidden", torch::nn::Linear(6, 9));
    head = register_module("head", torch::nn::Linear(9, 2));
  }
  torch::nn::Linear hidden{nullptr}, head{nullptr};
};

const MuonOptions kHeadByAdam{.adam_modules = {"head"}};

// a network, its buffer and an optimiser; all cases begin alike
struct Case {
  Case() : flat(net), muon(flat, net, {}, kHeadByAdam) {}
  at::Tensor step(at::Tensor grad, float skip = 0, float lr = 1e-2f) {
    muon.reduce(grad, {}, pool);
    muon.clip(at::full({}, skip));
    muon.step(at::full({}, lr), pool);
    return muon.norm().clone();
  }
  ThreadPool pool{1};
  Network net;
  FlatParams flat;
  FlatMuon muon;
};

at::Tensor muon_gradient(int64_t seed, int64_t size) {
  at::manual_seed(uint64_t(seed));
  return at::randn({size});
}

TEST(Muon, orthogonalized_matrices_have_singular_values_near_1_and_keep_their_directions) {
  at::manual_seed(1);
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{64, 64}, {8, 100}, {100, 8}, {1, 5}}) {
    auto x = at::randn({rows, columns}) * 1e-3;
    auto y = orthogonalized(x);
    auto values = at::linalg_svdvals(y);
    EXPECT_LT(values.max().item<float>(), 1.25f) << rows << " x " << columns;
    // a square random matrix has a few singular values close to 0, which five steps leave small
    const float least = rows == columns ? 0.f : 0.65f;
    EXPECT_GT(values.min().item<float>(), least) << rows << " x " << columns;
    EXPECT_GT((x * y).sum().item<float>(), 0.f);
  }
}

TEST(Muon, a_first_step_moves_a_matrix_by_its_share_of_the_learning_rate) {
  Case c;
  auto before = c.net.hidden->weight.detach().clone();
  c.step(muon_gradient(7, c.flat.size()));
  auto move = (c.net.hidden->weight.detach() - before) / 1e-2;
  EXPECT_NEAR(move.square().mean().sqrt().item<float>(), 0.2, 0.06);
}

TEST(Muon, biases_and_named_modules_are_stepped_as_by_adam) {
  Case c;
  Network other;
  FlatParams flat(other);
  flat.data().copy_(c.flat.data());
  FlatAdam adam(flat, {});
  for (int64_t step = 0; step < 5; ++step) {
    auto grad = muon_gradient(step, flat.size()), same = grad.clone();
    auto norm = c.step(grad);
    adam.reduce(same, {}, c.pool);
    adam.clip(at::zeros({}));
    adam.step(at::full({}, 1e-2f), c.pool);
    EXPECT_TRUE(close(norm, adam.norm(), 0));
  }
  EXPECT_TRUE(close(c.net.hidden->bias, other.hidden->bias, 0));
  EXPECT_TRUE(close(c.net.head->weight, other.head->weight, 0));
  EXPECT_FALSE(at::equal(c.net.hidden->weight, other.hidden->weight));
}

TEST(Muon, a_step_that_is_left_out_changes_nothing) {
  Case c, twin;
  auto bad = muon_gradient(1, c.flat.size());
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t step = 0; step < 3; ++step) {
    c.step(bad.clone());
    c.step(muon_gradient(9, c.flat.size()), 1);
    auto grad = muon_gradient(step, c.flat.size());
    c.step(grad.clone()), twin.step(grad.clone());
    ASSERT_TRUE(close(c.flat.data(), twin.flat.data(), 0)) << "step " << step;
  }
  EXPECT_EQ(c.muon.nonfinite().item<float>(), 3.f);
}

TEST(Muon, fits_a_linear_map) {
  Case c;
  auto x = at::randn({64, 6}), target = at::randn({64, 9}) * 0.01 + at::mm(x, at::randn({6, 9}));
  auto loss = [&] { return (c.net.hidden(x) - target).square().mean(); };
  const float before = loss().item<float>();
  for (int64_t step = 0; step < 400; ++step) {
    auto grads = torch::autograd::grad({loss()}, {c.net.hidden->weight, c.net.hidden->bias});
    auto flat = at::zeros({c.flat.size()});
    flat.narrow(0, 0, 54).copy_(grads[0].flatten());
    flat.narrow(0, 54, 9).copy_(grads[1]);
    c.step(flat, 0, 0.05f);
  }
  EXPECT_LT(loss().item<float>(), 0.01f * before);
}

}  // namespace
}  // namespace maglev
