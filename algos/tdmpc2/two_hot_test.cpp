#include "algos/tdmpc2/two_hot.h"

#include <cmath>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/model_shape.h"
#include "tests/close.h"

namespace maglev::tdmpc2 {
namespace {

const auto f64 = at::TensorOptions(at::kDouble);

TEST(Tdmpc2TwoHot, weighs_the_two_bins_beside_a_value) {
  const auto weights = two_hot(symexp(at::tensor({0.05, -9.83}, f64)));
  EXPECT_NEAR(weights[0][50].item<double>(), 0.75, 1e-12);
  EXPECT_NEAR(weights[0][51].item<double>(), 0.25, 1e-12);
  EXPECT_NEAR(weights[1][0].item<double>(), 0.15, 1e-9);
  EXPECT_NEAR(weights[1][1].item<double>(), 0.85, 1e-9);
  EXPECT_TRUE(close(weights.sum(1), at::ones({2}, f64), 1e-12));
}

TEST(Tdmpc2TwoHot, holds_values_beyond_its_bins_at_their_ends) {
  const auto weights = two_hot(at::tensor({-1e9, 1e9}, f64));
  EXPECT_EQ(weights[0][0].item<double>(), 1);
  EXPECT_EQ(weights[1][kBins - 1].item<double>(), 1);
}

TEST(Tdmpc2TwoHot, is_undone_by_its_inverse) {
  const auto x = at::tensor({-2000., -3., -0.1, 0., 0.004, 1., 250., 21000.}, f64);
  // logits whose softmax are the weights
  EXPECT_TRUE(close(two_hot_inverse(at::log(two_hot(x))), x, 1e-9));
}

TEST(Tdmpc2TwoHot, loss_is_least_at_its_own_weights) {
  const auto x = at::tensor({1.7}, f64);
  auto logits = at::log(two_hot(x) + 1e-9);
  const double least = two_hot_loss(logits, x).item<double>();
  for (int64_t bin : {50, 54, 55, 56, 60}) {
    auto other = logits.clone();
    other[0][bin] += 0.1;
    EXPECT_GT(two_hot_loss(other, x).item<double>(), least);
  }
}

}  // namespace
}  // namespace maglev::tdmpc2
