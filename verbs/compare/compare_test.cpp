#include <cmath>

#include <gtest/gtest.h>

#include "base/statistics/power.h"
#include "kernels/noise/noise.h"
#include "tests/errors.h"
#include "verbs/compare/groups.h"
#include "verbs/compare/profile.h"
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
  const std::string text = verdict_of(pair, {"a", a}, {"b", b}, 1, kConfidence).text;
  EXPECT_TRUE(contains(text, "3 seeds each find one of ")) << text;
  EXPECT_TRUE(contains(text, "would take ")) << text;
  const std::vector<double> low{1, 2, 3};
  const Pair apart = pairs_of({a, low}, kConfidence)[0];
  EXPECT_EQ(verdict_of(apart, {"a", a}, {"b", low}, 1, kConfidence).text, "a is higher than b");
}

TEST(Compare, says_which_condition_was_not_met) {
  const auto verdict = [](const std::vector<double>& a, const std::vector<double>& b) {
    const Pair pair = pairs_of({a, b}, kConfidence)[0];
    return verdict_of(pair, {"a", a}, {"b", b}, 1, kConfidence).text;
  };
  const std::string overlap = verdict({10, 11, 12, 13}, {12.5, 13.5, 14.5, 15.5}),
                    unsure = verdict({1, 2, 3, 4}, {1.5, 2.5, 3, 4});
  EXPECT_TRUE(contains(overlap, "p is below 0.05, but the intervals of the two means overlap; "))
      << overlap;
  EXPECT_TRUE(contains(unsure, "no difference is shown: Holm's p is not below 0.05; ")) << unsure;
}

TEST(Compare, names_the_settings_in_which_runs_differ) {
  Group a{.settings = {{"ppo.lr", {"0.001"}}, {"ppo.epochs", {"4"}}, {"env.count", {"8"}}}},
      b{.settings = {{"ppo.lr", {"0.001", "0.01"}}, {"ppo.epochs", {"5"}}, {"env.count", {"8"}}}};
  const std::map<std::string, std::vector<std::string>> expected{
      {"ppo.epochs", {"4", "5"}}, {"ppo.lr", {"0.001", "0.001 or 0.01"}}};
  EXPECT_EQ(differing_settings({a, b}), expected);
  // another algorithm's are no differences
  b.settings = {{"dreamer.lr", {"1"}}, {"ppo.epochs", {"4"}}};
  EXPECT_TRUE(differing_settings({a, b}).empty());
}

TEST(Compare, power_is_that_of_the_difference_that_is_seen) {
  const std::vector<double> a{1, 2, 3, 4, 5}, b{2.2, 3.2, 4.2, 5.2, 6.2};
  const Pair pair = pairs_of({a, b}, kConfidence)[0];
  const auto of = [&](int64_t n) { return power_analysis(pair, {n, n}, 1, kConfidence); };
  const PowerAnalysis five = of(5);
  EXPECT_GT(five.achieved, 0.0);
  EXPECT_LT(five.achieved, 0.8);
  EXPECT_GT(five.detectable, std::abs(pair.effect.g));
  // as many seeds as it asks for are enough, and one less is not
  EXPECT_GE(of(five.needed).achieved, 0.8);
  EXPECT_LT(of(five.needed - 1).achieved, 0.8);
  EXPECT_LE(of(five.needed).detectable, std::abs(pair.effect.g));
  // more pairs at once make each less sure
  EXPECT_LT(power_analysis(pair, {5, 5}, 20, kConfidence).achieved, five.achieved);
  // one seed, or none that differ, leave it unknown
  EXPECT_TRUE(std::isnan(
      power_analysis(pairs_of({{1}, {2}}, kConfidence)[0], {1, 1}, 1, kConfidence).achieved));
  EXPECT_EQ(power_analysis(pairs_of({a, a}, kConfidence)[0], {5, 5}, 1, kConfidence).needed, 0);
}

TEST(Compare, profiles_are_of_groups_whose_band_tells_something) {
  const std::vector<double> five{1, 2, 3, 4, 5}, four{1, 2, 3, 4};
  EXPECT_EQ(without_profile({{"A", five}}), "");
  EXPECT_EQ(without_profile({{"A", four}, {"B", five}, {"C", four}}),
            "no performance profile of A, C: that takes 5 seeds");
  EXPECT_TRUE(profile_json(four, kConfidence).is_null());
  const auto steps = profile_json(five, kConfidence);
  ASSERT_EQ(steps.size(), 5u);
  for (const auto& step : steps)
    EXPECT_FALSE(step["interval"][0] == 0 && step["interval"][1] == 1) << step.dump();
  // a figure of B, a line about the others; of none a line alone
  EXPECT_EQ(profile_parts({{"A", four}, {"B", five}}, "return", kConfidence).size(), 2u);
  const auto parts = profile_parts({{"A", four}}, "return", kConfidence);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<study::Paragraph>(parts[0]));
}

TEST(Compare, a_profile_is_drawn_flat_up_to_each_score_and_down_at_it) {
  const std::vector<double> values{0, 10, 10, 10, 10};
  const auto parts = profile_parts({{"A", values}}, "return", kConfidence);
  ASSERT_EQ(parts.size(), 1u);
  const std::string& drawn = std::get<study::Figure>(parts[0]).svg;
  // all reach 0, four of five 10, none more: shares 1, 0.8 and 0 at 34, 82.4 and 276 pixels
  EXPECT_TRUE(
      contains(drawn, "d=\"M64.0 34.0L64.0 34.0L64.0 82.4L510.0 82.4L510.0 276.0L510.0 276.0\""))
      << drawn;
}

// the rule itself, on normal samples of the effect that is said to be found four times in five
TEST(Compare, finds_what_it_says_it_finds_four_times_in_five) {
  for (const Sizes n :
       {Sizes{3, 3}, Sizes{5, 5}, Sizes{10, 10}, Sizes{3, 4}, Sizes{3, 10}, Sizes{3, 30}}) {
    const double effect = detectable_effect(n, 0.8, finding_alpha(n, 1, kConfidence));
    constexpr int kDraws = 2000;
    uint64_t drawn = 0;
    const auto sample = [&](int64_t values, double mean) {
      std::vector<double> sample;
      for (int64_t k = 0; k < values; ++k)
        sample.push_back(mean + normal(1, uint64_t(100 * n.first + n.second), drawn++));
      return sample;
    };
    int found = 0;
    for (int i = 0; i < kDraws; ++i)
      found += finding(sample(n.first, effect), sample(n.second, 0)) == Finding::higher;
    // intervals of unlike deviations part a little sooner
    EXPECT_NEAR(double(found) / kDraws, 0.82, 0.04) << n.first << " and " << n.second;
  }
}

// the least effects of 12,000 drawn comparisons each, found four times in five, are 4.93, 4.01, 3.66
TEST(Compare, sizes_of_both_sides_count) {
  const auto detectable = [](Sizes n) {
    return detectable_effect(n, 0.8, finding_alpha(n, 1, kConfidence));
  };
  EXPECT_NEAR(detectable({3, 3}), 6.24, 0.005);
  EXPECT_NEAR(detectable({3, 4}), 5.13, 0.005);
  EXPECT_NEAR(detectable({3, 10}), 4.10, 0.005);
  EXPECT_NEAR(detectable({3, 30}), 3.71, 0.005);
  EXPECT_EQ(detectable({3, 4}), detectable({4, 3}));
  const std::vector<double> a{10, 11, 12}, b{10.5, 11.5, 12, 12};
  const Pair pair = pairs_of({a, b}, kConfidence)[0];
  const std::string text = verdict_of(pair, {"a", a}, {"b", b}, 1, kConfidence).text;
  EXPECT_TRUE(contains(text, "; 3 and 4 seeds find one of 5.13 deviations four times in five"))
      << text;
  EXPECT_TRUE(text.ends_with(" each")) << text;
}

}  // namespace
}  // namespace maglev::verbs::compare
