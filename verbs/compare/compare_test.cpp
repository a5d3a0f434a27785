#include <cmath>

#include <gtest/gtest.h>

#include "tests/errors.h"
#include "verbs/compare/verdict.h"

namespace maglev::verbs::compare {
namespace {

constexpr double kConfidence = 0.95;

Finding finding(const std::vector<double>& a, const std::vector<double>& b) {
  return finding_of(pairs_of({a, b}, kConfidence)[0], a, b, kConfidence);
}

TEST(Compare, says_higher_only_where_the_test_does_and_intervals_are_apart) {
  EXPECT_EQ(finding({10, 11, 12}, {1, 2, 3}), Finding::higher);
  EXPECT_EQ(finding({1, 2, 3}, {10, 11, 12}), Finding::lower);
  EXPECT_EQ(finding({1, 2, 3}, {1.5, 2.5, 3}), Finding::none);
  // Welch's test alone would say so here (p = 0.034), but the means' intervals overlap
  const std::vector<double> a{10, 11, 12, 13}, b{12.5, 13.5, 14.5, 15.5};
  EXPECT_LT(pairs_of({a, b}, kConfidence)[0].welch.p, 0.05);
  EXPECT_EQ(finding(a, b), Finding::none);
  EXPECT_EQ(finding({100}, {1, 2, 3}), Finding::too_few);
}

TEST(Compare, tests_all_pairs_at_once) {
  const std::vector<std::vector<double>> samples{{10, 11, 12}, {1, 2, 3}, {5, 6, 9}, {7}};
  const auto pairs = pairs_of(samples, kConfidence);
  ASSERT_EQ(pairs.size(), 6u);
  // three of them can be tested, and the surest counts three times
  EXPECT_NEAR(pairs[0].holm_p, 3 * pairs[0].welch.p, 1e-12);
  EXPECT_TRUE(std::isnan(pairs[2].holm_p));
  EXPECT_EQ(pairs[2].second, 3u);
}

TEST(Compare, says_what_would_be_needed) {
  const std::vector<double> a{10, 11, 12}, b{10.5, 11.5, 12};
  const Pair pair = pairs_of({a, b}, kConfidence)[0];
  const std::string text = verdict_text(pair, Finding::none, "a", "b", 3, kConfidence);
  EXPECT_TRUE(contains(text, "3 seeds each find one of 3.07 deviations")) << text;
  EXPECT_TRUE(contains(text, "would take ")) << text;
  EXPECT_EQ(verdict_text(pair, Finding::higher, "a", "b", 3, kConfidence), "a is higher than b");
}

}  // namespace
}  // namespace maglev::verbs::compare
