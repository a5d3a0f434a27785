#include "engine/nn/value_head.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "tests/close.h"

namespace maglev {
namespace {

std::shared_ptr<ValueHead> head(ValueHeadKind kind, double beta = 1e-3) {
  Initializer init(3);
  return make_value_head(kind, 8, beta, init);
}

TEST(ValueHead, the_plain_head_speaks_in_the_rewards_own_units) {
  at::NoGradGuard no_grad;
  auto plain = head(ValueHeadKind::plain);
  auto x = at::randn({5, 8}), returns = at::randn({5}) * 100;
  auto before = plain->forward(x);
  plain->absorb(returns, at::ones({5}));
  EXPECT_TRUE(close(plain->forward(x), before, 0));
  EXPECT_TRUE(close(plain->denormalize(before), before, 0));
  EXPECT_TRUE(close(plain->normalize(returns), returns, 0));
}

TEST(ValueHead, popart_keeps_every_output_while_its_statistics_move) {
  at::NoGradGuard no_grad;
  at::manual_seed(1);
  auto popart = head(ValueHeadKind::popart);
  auto x = at::randn({64, 8});
  for (double scale : {1.0, 50.0, 2000.0, 3.0}) {
    auto before = popart->denormalize(popart->forward(x));
    popart->absorb(at::randn({256}) * scale + 3 * scale, at::ones({256}));
    auto after = popart->denormalize(popart->forward(x));
    // single precision holds an output to a share of the unit it is stored in
    auto size = popart->denormalize(at::ones({}));
    EXPECT_TRUE(close(after / size, before / size, 1e-5)) << "returns of " << scale;
    EXPECT_FALSE(close(popart->named_buffers()["scale"], at::ones({}), 1e-3));
  }
}

TEST(ValueHead, popart_targets_have_mean_0_and_deviation_1) {
  at::NoGradGuard no_grad;
  at::manual_seed(2);
  auto popart = head(ValueHeadKind::popart);
  auto returns = at::randn({512}) * 40 - 300;
  popart->absorb(returns, at::ones({512}));
  auto target = popart->normalize(returns);
  EXPECT_TRUE(close(target.mean(), at::zeros({}), 1e-4));
  EXPECT_TRUE(close(at::std(target, /*unbiased=*/false), at::ones({}), 1e-3));
  EXPECT_TRUE(close(popart->denormalize(target), returns, 1e-5));
}

TEST(ValueHead, popart_leaves_out_returns_of_weight_0) {
  at::NoGradGuard no_grad;
  auto all = head(ValueHeadKind::popart), some = head(ValueHeadKind::popart);
  auto returns = at::tensor({1.f, 5.f, 1e6f, -3.f, 1e6f}),
       weight = at::tensor({1.f, 1.f, 0.f, 1.f, 0.f});
  all->absorb(at::tensor({1.f, 5.f, -3.f}), at::ones({3}));
  some->absorb(returns, weight);
  EXPECT_TRUE(close(some->normalize(returns), all->normalize(returns), 1e-6));
}

TEST(ValueHead, popart_averages_first_and_then_forgets_at_its_least_step) {
  at::NoGradGuard no_grad;
  auto popart = head(ValueHeadKind::popart, /*beta=*/0.5);
  auto absorb = [&](float value) {
    popart->absorb(at::tensor({value - 1, value + 1}), at::ones({2}));
  };
  absorb(4), absorb(8);  // means 4, then 6
  absorb(10);            // 1/3 would give 7.33; the least step gives 8
  EXPECT_TRUE(close(popart->normalize(at::tensor({8.f})), at::zeros({1}), 1e-6));
}

TEST(ValueHead, constant_returns_do_not_divide_by_zero) {
  at::NoGradGuard no_grad;
  auto popart = head(ValueHeadKind::popart);
  auto returns = at::full({16}, 7.f);
  popart->absorb(returns, at::ones({16}));
  EXPECT_TRUE(at::isfinite(popart->forward(at::randn({4, 8}))).all().item<bool>());
  EXPECT_TRUE(close(popart->normalize(returns), at::zeros({16}), 1e-3));
}

}  // namespace
}  // namespace maglev
