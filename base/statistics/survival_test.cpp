#include "base/statistics/survival.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

using Lives = std::vector<std::pair<int64_t, bool>>;  // steps, and whether it ended

LifeTable table_of(const Lives& lives, int64_t longest) {
  LifeTable table(longest);
  for (const auto& [steps, ended] : lives) table.add(steps, ended);
  return table;
}

/// Another way to the same estimate: who is seen no further leaves his weight to all who are seen
/// longer, alike (Efron, "The two sample problem with censored data", 1967).
std::vector<double> redistributed(Lives lives, int64_t longest) {
  // at one time ends come before those seen no further
  std::ranges::sort(lives, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  std::vector<double> weight(lives.size(), 1 / double(lives.size()));
  std::vector<double> share(size_t(longest) + 1, 1.0);
  for (size_t i = 0; i < lives.size(); ++i) {
    if (!lives[i].second) {
      const double left = weight[i] / double(lives.size() - i - 1);
      for (size_t k = i + 1; k < lives.size(); ++k) weight[k] += left;
      continue;
    }
    for (int64_t t = lives[i].first; t <= longest; ++t) share[size_t(t)] -= weight[i];
  }
  return share;
}

// weeks in remission of 21 patients on 6-MP (Freireich et al., 1963), the textbooks' example
TEST(Survival, is_that_of_the_textbook) {
  const LifeTable table = table_of(
      {{6, true},   {6, true},   {6, true},   {6, false},  {7, true},   {9, false},  {10, true},
       {10, false}, {11, false}, {13, true},  {16, true},  {17, false}, {19, false}, {20, false},
       {22, true},  {23, true},  {25, false}, {32, false}, {32, false}, {34, false}, {35, false}},
      35);
  const auto share = table.survival();
  const std::pair<size_t, double> known[] = {{5, 1.0},    {6, 0.857},  {7, 0.807},
                                             {10, 0.753}, {13, 0.690}, {16, 0.627},
                                             {22, 0.538}, {23, 0.448}, {35, 0.448}};
  for (const auto& [week, value] : known) EXPECT_NEAR(share[week], value, 5e-4) << week;
  EXPECT_EQ(table.ended(), 9);
  EXPECT_EQ(table.lives(), 21);
}

TEST(Survival, is_what_redistribution_gives) {
  constexpr int64_t kLongest = 60;
  Rng rng(5, 0, 0);
  for (int trial = 0; trial < 20; ++trial) {
    Lives lives;
    for (int i = 0; i < 200; ++i) {
      const auto death = 1 + int64_t(rng.below(80)), looked = 1 + int64_t(rng.below(60));
      lives.emplace_back(std::min(death, looked), death <= looked);
    }
    // the longest is seen to the end, so that no weight is left over
    lives.emplace_back(kLongest, true);
    const auto share = table_of(lives, kLongest).survival();
    const auto expected = redistributed(lives, kLongest);
    double area = 0;
    for (int64_t t = 0; t <= kLongest; ++t) {
      EXPECT_NEAR(share[size_t(t)], expected[size_t(t)], 1e-12) << t;
      if (t < kLongest) area += expected[size_t(t)];
    }
    EXPECT_NEAR(table_of(lives, kLongest).restricted_mean(), area, 1e-10);
  }
}

TEST(Survival, restricted_mean_without_censoring_is_the_mean) {
  EXPECT_DOUBLE_EQ(table_of({{3, true}, {5, true}, {10, true}}, 20).restricted_mean(), 6);
  // who lives to the end counts as that
  EXPECT_DOUBLE_EQ(table_of({{3, true}, {20, false}}, 20).restricted_mean(), 11.5);
}

TEST(Survival, of_nobody_is_one) {
  EXPECT_EQ(LifeTable(4).survival(), std::vector<double>(5, 1.0));
}

}  // namespace
}  // namespace maglev
