#include "algos/tdmpc2/policy_prior.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/config/choice.h"
#include "tests/close.h"

namespace maglev::tdmpc2 {
namespace {

const auto f64 = at::TensorOptions(at::kDouble);

at::Tensor numbers(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), f64);
}

// the density of the squashed action, by a numerical derivative of the squashing
TEST(Tdmpc2PolicyPrior, entropy_is_minus_the_log_density_of_the_action) {
  const auto head = numbers({5, 2}, 1), eps = numbers({5, 1}, 2);
  const auto draw = draw_policy(head, eps, {});
  const auto log_std = -4 + 6 * at::tanh(head.narrow(1, 1, 1));
  const double h = 1e-6;
  auto action = [&](const at::Tensor& e) {
    return at::tanh(head.narrow(1, 0, 1) + e * at::exp(log_std));
  };
  const auto slope = (action(eps + h) - action(eps - h)) / (2 * h);
  const auto log_density = -0.5 * eps.square() - 0.5 * std::log(2 * M_PI) - at::log(slope);
  const auto inner = 1 - action(eps).square() > 1e-2;
  EXPECT_GE(inner.sum().item<int64_t>(), 2);
  EXPECT_TRUE(
      close(draw.entropy.masked_select(inner.squeeze(1)), -log_density.masked_select(inner), 1e-3));
}

TEST(Tdmpc2PolicyPrior, scaled_entropy_is_the_papers_quotient) {
  const auto head = numbers({7, 6}, 3), eps = numbers({7, 3}, 4);
  const auto draw = draw_policy(head, eps, {});
  const auto log_std = -4 + 6 * at::tanh(head.narrow(1, 3, 3));
  const auto gauss = (-0.5 * eps.square() - log_std - 0.5 * std::log(2 * M_PI)).sum(1);
  const auto squash = -draw.entropy;
  EXPECT_TRUE(close(draw.scaled_entropy, -squash * (3 * gauss / (squash + 1e-8)), 1e-6));
}

TEST(Tdmpc2PolicyPrior, scaled_entropy_of_the_action_is_A_times_its_own) {
  const auto head = numbers({7, 6}, 3), eps = numbers({7, 3}, 4);
  const auto draw = draw_policy(head, eps, {}, EntropyOf::action);
  EXPECT_TRUE(close(draw.scaled_entropy, 3 * draw.entropy, 1e-12));
  // but for the official code's least slope that of any
  const auto inner = (1 - draw.action.square() > 1e-2).all(1);
  EXPECT_GE(inner.sum().item<int64_t>(), 1);
  EXPECT_TRUE(close(draw.entropy.masked_select(inner),
                    draw_policy(head, eps, {}).entropy.masked_select(inner), 1e-3));
}

// where tanh is flat the values' gradient is gone, and this one is what brings a mean back
TEST(Tdmpc2PolicyPrior, entropy_of_the_action_holds_back_what_is_far_out) {
  for (const auto& [of, slope] :
       {std::pair{EntropyOf::gaussian, 0.}, std::pair{EntropyOf::action, -2.}}) {
    at::Tensor head = at::tensor({40., -40., 0., 0.}, f64).unsqueeze(0).set_requires_grad(true);
    draw_policy(head, at::zeros({1, 2}, f64), {}, of).scaled_entropy.sum().backward();
    const at::Tensor grad = head.grad();
    EXPECT_NEAR(grad[0][0].item<double>(), 2 * slope, 1e-12) << name_of(of);
    EXPECT_NEAR(grad[0][1].item<double>(), -2 * slope, 1e-12) << name_of(of);
  }
}

TEST(Tdmpc2PolicyPrior, dimensions_a_task_lacks_are_0) {
  const auto mask = at::tensor({1., 0., 1.}, f64).expand({4, 3});
  const auto draw = draw_policy(numbers({4, 6}, 5), numbers({4, 3}, 6), mask);
  EXPECT_EQ(draw.action.select(1, 1).abs().max().item<double>(), 0);
  EXPECT_GT(draw.action.select(1, 0).abs().min().item<double>(), 0);
}

TEST(Tdmpc2PolicyPrior, percentiles_lie_between_values) {
  // 0 .. 10: the 5th percentile is 0.5, the 95th 9.5
  const auto x = at::tensor({3., 0., 10., 7., 1., 5., 2., 9., 4., 8., 6.}, f64);
  EXPECT_NEAR(percentile_range(x).item<double>(), 9, 1e-12);
  EXPECT_NEAR(percentile_range(at::tensor({2., 5.}, f64)).item<double>(), 2.7, 1e-12);
  EXPECT_EQ(percentile_range(at::tensor({2.}, f64)).item<double>(), 0);
}

TEST(Tdmpc2PolicyPrior, the_running_scale_goes_a_share_of_the_way_and_never_below_1) {
  auto scale = at::full({}, 2., f64);
  update_running_scale(scale, at::arange(11, f64), 0.1);
  EXPECT_NEAR(scale.item<double>(), 2.7, 1e-12);
  // what is no numbers leaves it where it is
  const double before = scale.item<double>(), infinite = std::numeric_limits<double>::infinity();
  for (double x : {std::nan(""), infinite}) {
    update_running_scale(scale, at::full({5}, x, f64), 0.1);
    EXPECT_EQ(scale.item<double>(), before) << x;
  }
  update_running_scale(scale, at::zeros({5}, f64), 1);
  EXPECT_EQ(scale.item<double>(), 1);
}

}  // namespace
}  // namespace maglev::tdmpc2
