#include "base/statistics/profile.h"

#include <cmath>

#include <gtest/gtest.h>

namespace maglev {
namespace {

// by hand; a resample's share is binomial, and SciPy's binom.ppf(q, 5, k / 5) / 5 at 0.025 and 0.975
// gives the intervals
TEST(Profile, is_the_share_of_seeds_that_reach_each_score) {
  const std::vector<double> scores{7, 1, 3, 9, 5};
  const std::vector<ProfileStep> expected{{1, 1, {1, 1}},
                                          {3, 0.8, {0.4, 1}},
                                          {5, 0.6, {0.2, 1}},
                                          {7, 0.4, {0, 0.8}},
                                          {9, 0.2, {0, 0.6}}};
  const auto came = performance_profile(scores);
  ASSERT_EQ(came.size(), expected.size());
  for (size_t i = 0; i < came.size(); ++i) {
    EXPECT_EQ(came[i].score, expected[i].score);
    EXPECT_DOUBLE_EQ(came[i].share, expected[i].share) << i;
    EXPECT_DOUBLE_EQ(came[i].interval.low, expected[i].interval.low) << i;
    EXPECT_DOUBLE_EQ(came[i].interval.high, expected[i].interval.high) << i;
  }
}

TEST(Profile, scores_that_are_equal_are_one_step) {
  const std::vector<double> scores{2, 4, 2, 4};
  const auto steps = performance_profile(scores);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].share, 1);
  EXPECT_EQ(steps[1].share, 0.5);
  // of four seeds a band tells nothing there
  EXPECT_EQ(steps[1].interval.low, 0);
  EXPECT_EQ(steps[1].interval.high, 1);
}

TEST(Profile, one_seed_has_no_interval) {
  const std::vector<double> scores{3};
  const auto steps = performance_profile(scores);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].share, 1);
  EXPECT_TRUE(std::isnan(steps[0].interval.low));
  EXPECT_TRUE(performance_profile({}).empty());
}

}  // namespace
}  // namespace maglev
