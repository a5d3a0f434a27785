#include "kernels/mppi/mppi.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(Mppi, among_equal_sequences_the_earlier_comes_first) {
  const std::vector<float> total{1, 3, 3, 0, 3};
  const std::vector<float> actions{0.f, 0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<int64_t> elites(4);
  std::vector<float> scores(4);
  float mean = 0, std = 0;
  mppi_elites_cpu({.total = total.data(),
                   .actions = actions.data(),
                   .mask = nullptr,
                   .elites = elites.data(),
                   .scores = scores.data(),
                   .mean = &mean,
                   .std = &std,
                   .temperature = 100,
                   .min_std = 0.05f,
                   .max_std = 2,
                   .N = 1,
                   .H = 1,
                   .S = 5,
                   .A = 1,
                   .E = 4});
  EXPECT_EQ(elites, (std::vector<int64_t>{1, 2, 4, 0}));
  EXPECT_FLOAT_EQ(scores[0], 1.f / 3);
  EXPECT_EQ(scores[3], 0);
  EXPECT_FLOAT_EQ(mean, (0.1f + 0.2f + 0.4f) / 3);
}

TEST(Mppi, a_value_that_is_no_number_counts_as_0) {
  const std::vector<float> logits(2 * 2 * 101, 0.f), bias(101, 0.f), alive{1, 1};
  const std::vector<float> value{std::numeric_limits<float>::quiet_NaN(), 2};
  std::vector<float> total(2);
  const float discount = 1;
  mppi_total_cpu({.bins = {},
                  .logits = logits.data(),
                  .bias = bias.data(),
                  .end = {.logit = nullptr, .bias = nullptr, .soft = false},
                  .discount = &discount,
                  .value = value.data(),
                  .alive = alive.data(),
                  .total = total.data(),
                  .bf16 = false,
                  .bias_step = 0,
                  .discount_env = 0,
                  .N = 1,
                  .S = 2});
  EXPECT_EQ(total[0], 0);
  EXPECT_NEAR(total[1], 2, 1e-5);
}

TEST(Mppi, a_hard_end_is_final_and_a_soft_one_the_product_of_chances) {
  EXPECT_EQ(mppi_going_on(1, 0.1f, false), 0);
  EXPECT_EQ(mppi_going_on(1, -0.1f, false), 1);
  EXPECT_EQ(mppi_going_on(0, -5, false), 0);
  EXPECT_FLOAT_EQ(mppi_going_on(mppi_going_on(1, 0, true), 0, true), 0.25f);
  EXPECT_EQ(mppi_going_on(1, 100, true), 0);
}

TEST(Mppi, a_pair_is_of_two_different_networks_and_every_pair_is_drawn) {
  constexpr int64_t N = 400, num_q = 4;
  std::vector<float> prev(N), mean(N), std(N);
  std::vector<uint8_t> first(N, 1);
  std::vector<int64_t> pair(2 * N), count(num_q * num_q);
  mppi_begin_cpu({.pair_noise = {.seed = 1, .stream = 2, .first = 0, .rows = N},
                  .prev_mean = prev.data(),
                  .is_first = first.data(),
                  .mean = mean.data(),
                  .std = std.data(),
                  .pair = pair.data(),
                  .max_std = 2,
                  .N = N,
                  .H = 1,
                  .A = 1,
                  .I = 1,
                  .num_q = num_q});
  for (size_t n = 0; n < size_t(N); ++n) {
    ASSERT_LT(pair[2 * n], pair[2 * n + 1]);
    ASSERT_LT(pair[2 * n + 1], num_q);
    ++count[size_t(pair[2 * n] * num_q + pair[2 * n + 1])];
  }
  // 6 pairs, 67 expected of each, standard deviation 7.5
  for (int64_t i = 0; i < num_q; ++i)
    for (int64_t j = i + 1; j < num_q; ++j) EXPECT_NEAR(count[size_t(i * num_q + j)], 67, 38);
}

}  // namespace
}  // namespace maglev
