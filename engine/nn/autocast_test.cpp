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

TEST(Autocast, is_left_and_entered_again) {
  auto x = at::randn({16, 32}), w = at::randn({8, 32});
  const auto plain = at::linear(x, w);
  Autocast guard(Precision::bf16, at::kCPU);
  {
    const WithoutAutocast exact(at::kCPU);
    EXPECT_TRUE(at::equal(at::linear(x, w), plain));
  }
  EXPECT_EQ(at::linear(x, w).scalar_type(), at::kBFloat16);
}

// what an optimiser reports of a gradient
at::Tensor norm_of(float value) { return at::full({}, value); }
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LossScale, a_gradient_that_is_not_finite_halves_the_scale) {
  LossScale scaling(true, at::kCPU);
  const float first = scaling.scale().item<float>();
  scaling.adapt(norm_of(3));
  EXPECT_EQ(scaling.scale().item<float>(), first);
  for (float bad : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const float before = scaling.scale().item<float>();
    scaling.adapt(norm_of(bad));
    EXPECT_EQ(scaling.scale().item<float>(), before / 2);
    EXPECT_EQ(scaling.unscale().item<float>(), 2 / before);
  }
}

TEST(LossScale, grows_after_2000_finite_steps_in_a_row) {
  LossScale scaling(true, at::kCPU);
  const float first = scaling.scale().item<float>();
  for (int i = 0; i < 1999; ++i) scaling.adapt(norm_of(1));
  EXPECT_EQ(scaling.scale().item<float>(), first);
  scaling.adapt(norm_of(1));
  EXPECT_EQ(scaling.scale().item<float>(), 2 * first);
}

TEST(LossScale, off_it_leaves_gradients_as_they_are) {
  LossScale scaling(false, at::kCPU);
  scaling.adapt(norm_of(kInfinity));
  EXPECT_FALSE(scaling.unscale().defined());
  EXPECT_EQ(scaling.scale().item<float>(), 1);
}

}  // namespace
}  // namespace maglev
