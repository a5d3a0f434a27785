// The fused learner's products in bf16, beside autograd and updates in fp32.
#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "algos/dreamer/fused/learner.h"
#include "algos/dreamer/fused/stack.h"
#include "base/simd/pairs.h"
#include "base/simd/tiles.h"
#include "tests/close.h"
#include "tests/random_sequences.h"

namespace maglev::dreamer {
namespace {

// sizes at which pairs pay, and shards of 8 sequences
const Setting kWide{.B = 16, .T = 12, .deter = 64, .hidden = 32, .units = 32};

Setting rounded(Setting setting) {
  setting.precision = Precision::bf16;
  return setting;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

class DreamerBf16 : public testing::Test {
 protected:
  void SetUp() override {
    if (!pair_products_available()) GTEST_SKIP() << "nothing here multiplies pairs of bfloat16";
  }
};

TEST_F(DreamerBf16, a_stack_there_and_back_is_autograds_but_for_rounded_factors) {
  Initializer init(3);
  Head head({.in = 70, .layers = 2, .units = 48, .out = 35, .scale = 1}, init);
  std::vector<at::Tensor> gradients;
  for (auto& p : head.parameters()) gradients.push_back(p.mutable_grad() = at::zeros_like(p));
  WeightRows weights(Precision::bf16, at::kCPU);
  Stack stack(head, {.rows = 100, .slots = 2}, weights);
  weights.copy();
  at::manual_seed(5);
  const auto x = at::randn({200, 70}).set_requires_grad(true), d_out = at::randn({200, 35});
  auto d_x = at::zeros({200, 70});
  BackScratch scratch(200, 48, d_x.options());
  {
    at::NoGradGuard no_grad;
    for (int64_t slot : {0, 1}) stack.forward(slot, x.detach().narrow(0, 100 * slot, 100));
    stack.back(d_out, x.detach(), scratch, d_x);
  }
  const auto ours = [&] {
    std::vector<at::Tensor> all{(stack.all_out() + stack.bias()).detach(), d_x};
    for (const auto& g : gradients) all.push_back(g.clone());
    return all;
  }();
  for (auto& g : gradients) g.zero_();
  const auto out = head.forward(x);
  out.backward(d_out);
  std::vector<at::Tensor> theirs{out.detach(), x.grad()};
  for (const auto& p : head.parameters()) theirs.push_back(p.grad());
  // three products there and three back, two factors each
  const auto bound = Tolerance::of_sums(12, kRoundBf16);
  for (size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_TRUE(close(ours[i], theirs[i], bound)) << i;
    EXPECT_GT(share_used(theirs[i], ours[i], Tolerance::of_sums(12)), 0) << i << " was not rounded";
  }
}

// draws near a threshold fall otherwise, so there is no bound element by element
void expect_losses_beside_those_in_fp32(const Setting& setting) {
  constexpr int kUpdates = 50;
  Made<FusedLearner> full(setting), low(rounded(setting));
  const auto batch = sequences(full.options, 3);
  at::Tensor sums = at::zeros({2, int64_t(kFigures)}, at::kDouble);
  for (int u = 0; u < kUpdates; ++u) {
    full.learner.update(batch, full.figures), low.learner.update(batch, low.figures);
    sums[0] += full.figures, sums[1] += low.figures;
  }
  EXPECT_FALSE(at::equal(full.state.params.data(), low.state.params.data()));
  for (Figure f : {kObservation, kReward, kContinue, kDynamics, kValue, kReplayValue, kTotal}) {
    const double theirs = sums[0][f].item<double>(), ours = sums[1][f].item<double>();
    EXPECT_LT(std::abs(ours - theirs), 0.05 * std::abs(theirs)) << f;
  }
  EXPECT_LT(distance(low.state.params.data(), full.state.params.data()), 0.02);
}

TEST_F(DreamerBf16, losses_of_fifty_updates_lie_beside_those_in_fp32) {
  expect_losses_beside_those_in_fp32(kWide);
}
TEST_F(DreamerBf16, losses_of_fifty_updates_from_images_lie_beside_those_in_fp32) {
  Setting setting = kWide;
  setting.images = true;
  expect_losses_beside_those_in_fp32(setting);
}

// images themselves, there and back: what is rounded above them hides nothing
void expect_rounded_images(int64_t side) {
  Setting setting = kWide;
  setting.images = true, setting.side = side;
  Made<FusedLearner> made(setting);
  const auto seen = sequences(made.options, 3).seen.rows();
  const auto& networks = *made.state.networks;
  const int64_t rows = seen.image.size(0);
  const auto deter = at::randn({rows, made.options.shape.deter});
  const auto stoch = at::rand({rows, made.options.shape.flat_stoch()});
  // tokens, losses, and the gradients of both
  const auto both = [&](Precision products) {
    const auto h = deter.clone().set_requires_grad(true);
    const auto tokens = networks.encoder->forward(seen, products);
    const auto losses = networks.decoder->loss({h, stoch}, seen, products);
    for (auto& p : networks.parameters())
      if (p.grad().defined()) p.mutable_grad() = at::zeros_like(p);
    (tokens.square().sum() + losses.sum()).backward();
    std::vector<at::Tensor> all{tokens.detach(), losses.detach(), h.grad().clone()};
    for (const auto& network : {networks.encoder->parameters(), networks.decoder->parameters()})
      for (const auto& p : network) all.push_back(p.grad().clone());
    return all;
  };
  const auto low = both(Precision::bf16), full = both(Precision::fp32);
  for (size_t i = 0; i < low.size(); ++i) {
    EXPECT_LT(distance(low[i], full[i]), 0.1) << i;
    if (i < 3) {
      EXPECT_EQ(distance(low[i], full[i]) > 0, tiles_available()) << i;
    }
  }
  // nobody asks for gradients: fp32, whatever is asked for
  at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(networks.encoder->forward(seen, Precision::bf16),
                        networks.encoder->forward(seen, Precision::fp32)));
}

TEST_F(DreamerBf16, images_are_rounded_where_there_are_tiles) { expect_rounded_images(16); }
TEST_F(DreamerBf16, images_that_do_not_halve_are_rounded_where_there_are_tiles) {
  expect_rounded_images(10);
}

TEST_F(DreamerBf16, results_do_not_depend_on_threads) {
  Setting setting = rounded(kWide);
  setting.B = 13;
  setting.images = true;
  Made<FusedLearner> one(setting);
  setting.threads = 3;
  Made<FusedLearner> three(setting);
  for (uint64_t seed : {3, 4}) {
    one.learner.update(sequences(one.options, seed), one.figures);
    three.learner.update(sequences(three.options, seed), three.figures);
  }
  EXPECT_TRUE(close(three.state.params.data(), one.state.params.data(), 0));
  EXPECT_TRUE(close(three.figures, one.figures, 0));
}

// nothing rounded outlives an update: who takes over the state goes on to the bit
TEST_F(DreamerBf16, another_learner_goes_on_from_the_state) {
  Made<FusedLearner> whole(rounded(kWide)), first(rounded(kWide));
  for (uint64_t seed : {3, 4}) whole.learner.update(sequences(whole.options, seed), whole.figures);
  first.learner.update(sequences(first.options, 3), first.figures);
  FusedLearner second(first.options, first.state);
  second.update(sequences(first.options, 4), first.figures);
  EXPECT_TRUE(close(first.state.params.data(), whole.state.params.data(), 0));
  EXPECT_TRUE(close(first.figures, whole.figures, 0));
}

}  // namespace
}  // namespace maglev::dreamer
