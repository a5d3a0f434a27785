#include "verbs/train/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

namespace maglev::verbs::train {
namespace {

TEST(Statistics, quantiles_of_students_t_are_those_of_its_tables) {
  EXPECT_NEAR(t_quantile(1), 12.7062, 1e-4);
  EXPECT_NEAR(t_quantile(4), 2.7764, 1e-4);
  EXPECT_NEAR(t_quantile(21), 2.0796, 1e-3);
  EXPECT_NEAR(t_quantile(30), 2.0423, 5e-4);
  EXPECT_NEAR(t_quantile(120), 1.9799, 1e-4);
}

TEST(Statistics, an_interval_is_centred_on_the_mean_and_as_wide_as_the_deviation_says) {
  const double values[] = {2, 4, 4, 6};
  const Spread spread = spread_of(values);
  EXPECT_DOUBLE_EQ(spread.mean, 4);
  EXPECT_NEAR(spread.deviation, std::sqrt(8. / 3), 1e-12);
  EXPECT_NEAR(spread.high - spread.mean, 3.1824 * std::sqrt(8. / 3) / 2, 1e-4);
  EXPECT_DOUBLE_EQ(spread.mean - spread.low, spread.high - spread.mean);
}

TEST(Statistics, one_value_has_no_deviation) {
  const double value[] = {3};
  EXPECT_EQ(spread_of(value).mean, 3);
  EXPECT_TRUE(std::isnan(spread_of(value).deviation));
  EXPECT_TRUE(std::isnan(spread_of(value).low));
}

}  // namespace
}  // namespace maglev::verbs::train
