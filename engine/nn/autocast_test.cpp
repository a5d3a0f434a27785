#include "engine/nn/autocast.h"

#include <limits>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/close.h"

namespace maglev {
namespace {

TEST(Autocast, products_are_bf16_while_it_lives_and_gradients_fp32) {
  at::manual_seed(1);
  auto x = at::randn({16, 32}), w = at::randn({8, 32}).set_requires_grad(true);
  at::Tensor out;
  {
    Autocast guard(Precision::bf16, at::kCPU);
    out = at::linear(x, w);
  }
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(close(out.to(at::kFloat), at::linear(x, w).detach(), 5e-2));
  out.to(at::kFloat).sum().backward();
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(at::linear(x, w).scalar_type(), at::kFloat);
}

TEST(Autocast, fp32_changes_no_bit) {
  auto x = at::randn({16, 32}), w = at::randn({8, 32});
  const auto plain = at::linear(x, w);
  Autocast guard(Precision::fp32, at::kCPU);
  EXPECT_TRUE(at::equal(at::linear(x, w), plain));
}

TEST(LossScale, a_gradient_that_is_not_finite_halves_the_scale_and_counts_as_a_step_left_out) {
  LossScale scaling(true, at::kCPU);
  const float first = scaling.scale().item<float>();
  auto grad = at::full({4}, 3.0) * scaling.scale();
  EXPECT_EQ(scaling.unscale(grad).item<float>(), 0);
  EXPECT_TRUE(close(grad, at::full({4}, 3.0), 0));
  EXPECT_EQ(scaling.scale().item<float>(), first);
  grad[2] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scaling.unscale(grad).item<float>(), 1);
  EXPECT_EQ(scaling.scale().item<float>(), first / 2);
  EXPECT_EQ(scaling.skipped().item<float>(), 1);
}

TEST(LossScale, grows_after_2000_finite_steps_in_a_row) {
  LossScale scaling(true, at::kCPU);
  const float first = scaling.scale().item<float>();
  auto grad = at::zeros({2});
  for (int i = 0; i < 1999; ++i) scaling.unscale(grad);
  EXPECT_EQ(scaling.scale().item<float>(), first);
  scaling.unscale(grad);
  EXPECT_EQ(scaling.scale().item<float>(), 2 * first);
}

TEST(LossScale, off_it_leaves_gradients_as_they_are) {
  LossScale scaling(false, at::kCPU);
  auto grad = at::tensor({1.f, std::numeric_limits<float>::infinity()});
  EXPECT_EQ(scaling.unscale(grad).item<float>(), 0);
  EXPECT_EQ(scaling.scale().item<float>(), 1);
  EXPECT_EQ(grad[0].item<float>(), 1);
}

}  // namespace
}  // namespace maglev
