#include "kernels/two_hot/two_hot.h"

#include <array>
#include <cmath>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "kernels/two_hot/two_hot_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

float symexp(float x) { return std::copysign(std::expm1(std::abs(x)), x); }

TEST(TwoHot, positions_are_in_symlog_space_and_end_with_the_bins) {
  const TwoHotBins bins;
  EXPECT_FLOAT_EQ(two_hot_position(bins, 0), 50);
  EXPECT_NEAR(two_hot_position(bins, symexp(3.1f)), 65.5f, 1e-4f);
  EXPECT_NEAR(two_hot_position(bins, symexp(-0.2f)), 49, 1e-4f);
  EXPECT_FLOAT_EQ(two_hot_position(bins, 1e9f), 100);
  EXPECT_FLOAT_EQ(two_hot_position(bins, -1e9f), 0);
}

// logits that say one bin alone
TEST(TwoHot, a_certain_and_right_answer_costs_nothing) {
  const TwoHotBins bins;
  auto logits = at::zeros({1, 101});
  logits[0][75] = 60;
  EXPECT_NEAR(two_hot_loss(logits, at::tensor({symexp(5)}), bins).item<float>(), 0, 1e-3f);
  EXPECT_NEAR(two_hot_loss(logits, at::tensor({symexp(-5)}), bins).item<float>(), 60, 1e-2f);
}

TEST(TwoHot, padding_lanes_get_no_gradient) {
  auto panel = at::randn({101, 16}), value = at::zeros({16});
  auto again = panel.clone();
  const std::array<float, 3> target{1, 2, 3};
  std::array<float, 3> loss;
  two_hot_loss_cpu({.logits = panel.data_ptr<float>(),
                    .target = target.data(),
                    .weight = 2,
                    .loss = loss.data(),
                    .stride = 16,
                    .rows = 3});
  EXPECT_EQ(panel.narrow(1, 3, 13).abs().max().item<float>(), 0);
  EXPECT_GT(panel.narrow(1, 0, 3).abs().min().item<float>(), 0);
  EXPECT_TRUE(close(panel.sum(0), at::zeros({16}), 1e-5)) << "probabilities keep their sum";
  two_hot_value_grad_cpu({.logits = again.data_ptr<float>(),
                          .value = value.data_ptr<float>(),
                          .stride = 16,
                          .rows = 3});
  EXPECT_EQ(again.narrow(1, 3, 13).abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace maglev
