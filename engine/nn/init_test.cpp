#include "engine/nn/init.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Initializer, cuts_a_normal_distribution_without_heaping_its_ends) {
  Initializer init(7);
  auto weight = init.weight({300, 500});
  init.truncated_normal(weight, /*std=*/0.5, /*limit=*/2);
  EXPECT_LT(weight.abs().max().item<double>(), 1.0);
  // of a normal cut at two deviations: mean 0, deviation 0.87962566; shares by its distribution
  const double samples = double(weight.numel());
  const double error = 6 / std::sqrt(samples);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 0.5 * error);
  EXPECT_NEAR(weight.std().item<double>(), 0.5 * 0.87962566, 0.5 * error);
  const auto share = [&](double deviations) {
    return (weight.abs() < 0.5 * deviations).to(at::kFloat).mean().item<double>();
  };
  EXPECT_NEAR(share(1), 0.682689492 / 0.954499736, error);
  EXPECT_NEAR(share(1.9), 0.942566859 / 0.954499736, error);
}

TEST(Initializer, is_a_function_of_its_seed_and_the_order) {
  const auto drawn = [](uint64_t seed) {
    Initializer init(seed);
    auto first = init.weight({4, 5}), second = init.weight({4, 5});
    init.truncated_normal(first, 1, 2), init.truncated_normal(second, 1, 2);
    return at::stack({first, second});
  };
  EXPECT_TRUE(at::equal(drawn(3), drawn(3)));
  EXPECT_FALSE(at::equal(drawn(3), drawn(4)));
  EXPECT_FALSE(at::equal(drawn(3)[0], drawn(3)[1]));
}

}  // namespace
}  // namespace maglev
