#include "verbs/eval/over_seeds.h"

#include <cmath>

#include <gtest/gtest.h>

namespace maglev::verbs::eval {
namespace {

nlohmann::json seed_report(double mean, double sampled) {
  return {{"results",
           {{{"actions", "mean"}, {"against", "weak"}, {"return_mean", mean}},
            {{"actions", "mean"}, {"against", "strong"}, {"return_mean", nullptr}},
            {{"actions", "sample"}, {"against", "weak"}, {"return_mean", sampled}}}}};
}

TEST(OverSeeds, each_way_of_judging_has_the_mean_over_seeds) {
  const auto rows = over_seeds({seed_report(1, 10), seed_report(2, 20), seed_report(6, 60)});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["return_mean"], 3.0);
  EXPECT_EQ(rows[0]["seeds"], 3);
  EXPECT_NEAR(rows[0]["return_std"].get<double>(), std::sqrt(7.0), 1e-12);
  EXPECT_LT(rows[0]["interval_95"][0].get<double>(), 3.0);
  EXPECT_EQ(rows[1]["seeds"], 0);
  EXPECT_FALSE(rows[1].contains("return_mean"));
  EXPECT_EQ(rows[2]["return_mean"], 30.0);
  const std::string text = over_seeds_text(rows);
  EXPECT_TRUE(text.starts_with("mean against weak over 3 seeds: return 3.00, deviation 2.65, "))
      << text;
  EXPECT_NE(text.find("mean against strong over 0 seeds: no episode ended\n"), text.npos) << text;
}

TEST(OverSeeds, one_seed_has_a_mean_alone) {
  const auto rows = over_seeds({seed_report(1, 10)});
  EXPECT_TRUE(rows[0]["return_std"].is_null());
  EXPECT_TRUE(over_seeds_text(rows).starts_with("mean against weak over 1 seed: return 1.00\n"));
}

}  // namespace
}  // namespace maglev::verbs::eval
