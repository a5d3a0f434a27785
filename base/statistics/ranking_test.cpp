#include "base/statistics/ranking.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/philox.h"

namespace maglev {
namespace {

/// Scores of few values, so that many are equal.
std::vector<double> coarse_scores(Rng& rng, size_t count) {
  std::vector<double> scores;
  for (size_t i = 0; i < count; ++i) scores.push_back(double(rng.below(6)) - 2);
  return scores;
}

TEST(Ranking, ties_are_one_rule_each) {
  const std::vector<double> others{5, 3, 3, 3, 1};
  EXPECT_EQ(rank_of(3, others, Ties::optimistic), 2);
  EXPECT_EQ(rank_of(3, others, Ties::pessimistic), 5);
  EXPECT_EQ(rank_of(3, others, Ties::realistic), 3.5);
  EXPECT_EQ(rank_of(9, others, Ties::random), 1);
  EXPECT_EQ(rank_of(-std::numeric_limits<double>::infinity(), others, Ties::random), 6);
  EXPECT_EQ(rank_of(0, {}, Ties::realistic), 1);
  EXPECT_THROW(rank_of(std::nan(""), others, Ties::random), Error);
  EXPECT_THROW(rank_of(0, std::vector<double>{std::nan("")}, Ties::random), Error);
}

TEST(Ranking, random_ties_fall_evenly_and_by_seed) {
  const std::vector<double> others{5, 3, 3, 3, 1};
  std::vector<int> times(6);
  double sum = 0;
  for (uint64_t query = 0; query < 40'000; ++query) {
    const double rank = rank_of(3, others, Ties::random, 7, query);
    EXPECT_EQ(rank, rank_of(3, others, Ties::random, 7, query));
    ++times[size_t(rank)];
    sum += rank;
  }
  // 2, 3, 4 and 5, a quarter each: five deviations of the count
  for (size_t rank = 2; rank <= 5; ++rank)
    EXPECT_NEAR(times[rank], 10'000, 5 * std::sqrt(40'000 * 0.25 * 0.75));
  EXPECT_NEAR(sum / 40'000, rank_of(3, others, Ties::realistic), 0.03);
}

TEST(Ranking, summaries_are_their_formulas) {
  const std::vector<double> ranks{1, 2, 2.5, 10, 11};
  const RankSummary s = summary_of(ranks);
  EXPECT_EQ(s.count, 5);
  EXPECT_NEAR(s.mrr, (1 + 0.5 + 0.4 + 0.1 + 1 / 11.) / 5, 1e-15);
  EXPECT_NEAR(s.mean_rank, 26.5 / 5, 1e-14);
  EXPECT_NEAR(s.hits_1, 0.2, 1e-15);
  EXPECT_NEAR(s.hits_3, 0.6, 1e-15);
  EXPECT_NEAR(s.hits_10, 0.8, 1e-15);
  EXPECT_EQ(summary_of({}).mrr, 0);

  const std::vector<int32_t> keys{4, -1, 4, -1, 4};
  const auto by = summary_by(ranks, keys);
  ASSERT_EQ(by.size(), 2u);
  EXPECT_EQ(by.at(4).count, 3);
  EXPECT_NEAR(by.at(4).mrr, (1 + 0.4 + 1 / 11.) / 3, 1e-15);
  EXPECT_NEAR(by.at(-1).mrr, 0.3, 1e-15);
}

TEST(Ranking, interval_of_the_mrr_is_that_of_a_mean) {
  Rng rng(1, stream_id(Purpose::eval, 0), 0);
  std::vector<double> ranks, reciprocal;
  for (int i = 0; i < 400; ++i) {
    ranks.push_back(1 + double(rng.below(20)));
    reciprocal.push_back(1 / ranks.back());
  }
  const Interval bootstrap = mrr_interval(ranks), normal = spread_of(reciprocal).interval;
  EXPECT_NEAR(bootstrap.low, normal.low, 0.15 * (normal.high - normal.low));
  EXPECT_NEAR(bootstrap.high, normal.high, 0.15 * (normal.high - normal.low));
  EXPECT_TRUE(std::isnan(mrr_interval(std::vector<double>{1}).low));
}

TEST(Ranking, average_precision_is_the_sum_over_thresholds) {
  Rng rng(3, stream_id(Purpose::eval, 0), 0);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto truths = coarse_scores(rng, 1 + rng.below(8)),
               others = coarse_scores(rng, rng.below(9));
    // sum (R_i - R_i-1) P_i over every threshold from above, by counting
    double sum = 0, recall = 0;
    for (double threshold = 3; threshold >= -2; --threshold) {
      double right = 0, wrong = 0;
      for (double t : truths) right += t >= threshold;
      for (double o : others) wrong += o >= threshold;
      if (right == 0) continue;
      sum += (right / double(truths.size()) - recall) * right / (right + wrong);
      recall = right / double(truths.size());
    }
    EXPECT_NEAR(average_precision(truths, others), sum, 1e-14);
  }
  // what scikit-learn's documentation shows, as 0.83
  EXPECT_NEAR(average_precision(std::vector{0.35, 0.8}, std::vector{0.1, 0.4}), 0.8333333333333333,
              1e-15);
  EXPECT_TRUE(std::isnan(average_precision({}, std::vector{1.})));
}

}  // namespace
}  // namespace maglev
