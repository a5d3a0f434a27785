#include "base/statistics/trend.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

std::vector<double> whole_numbers(int n) {
  std::vector<double> x(size_t(n), 0.0);
  for (int i = 0; i < n; ++i) x[size_t(i)] = i;
  return x;
}

// scipy.stats.theilslopes, and Kendall's S = 48 with variance 206 worked out from its definition
TEST(Trend, is_the_median_slope_and_kendalls_p) {
  const std::vector<double> y{5, 6, 6, 7, 5, 8, 9, 9, 9, 8, 11, 12};
  const Trend trend = trend_of(whole_numbers(12), y);
  EXPECT_DOUBLE_EQ(trend.slope, 0.6);
  EXPECT_NEAR(trend.p, 0.0010579476697749196, 1e-12);
}

TEST(Trend, of_a_straight_line_is_the_line_whatever_one_wild_value_says) {
  auto x = whole_numbers(20), y = x;
  for (double& v : y) v *= -3;
  y[7] = 1e9;
  const Trend trend = trend_of(x, y);
  EXPECT_DOUBLE_EQ(trend.slope, -3);
  EXPECT_LT(trend.p, 1e-6);
}

TEST(Trend, is_unknown_of_few_samples_and_of_what_never_changes) {
  EXPECT_EQ(trend_of(whole_numbers(3), whole_numbers(3)).p, 1);
  const std::vector<double> same(10, 4.0);
  EXPECT_EQ(trend_of(whole_numbers(10), same).slope, 0);
  EXPECT_EQ(trend_of(whole_numbers(10), same).p, 1);
}

// of what has none, one in a hundred is called a trend at p < 0.01: of 2,000, 20 with deviation 4.5
TEST(Trend, is_rarely_seen_where_there_is_none) {
  int seen = 0;
  for (uint64_t run = 0; run < 2000; ++run) {
    Rng rng(run, /*stream=*/1, /*counter=*/0);
    std::vector<double> y(30);
    for (double& v : y) v = rng.uniform();
    seen += trend_of(whole_numbers(30), y).p < 0.01;
  }
  EXPECT_LT(seen, 20 + 5 * 4.5);
  EXPECT_GT(seen, 2);
}

}  // namespace
}  // namespace maglev
