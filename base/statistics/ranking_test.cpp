#include "base/statistics/ranking.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/core/philox.h"

namespace maglev {
namespace {

TEST(Ranking, counts_those_before_and_treats_ties_by_rule) {
  const std::vector<double> scores{2, 3, 2, 1, 2, 5};
  EXPECT_EQ(rank_of(scores, Ties::optimistic), 3);
  EXPECT_EQ(rank_of(scores, Ties::pessimistic), 5);
  EXPECT_EQ(rank_of(scores, Ties::realistic), 4);
  const std::vector<double> lone{-1};
  for (Ties ties : {Ties::random, Ties::realistic, Ties::optimistic, Ties::pessimistic})
    EXPECT_EQ(rank_of(lone, ties), 1);
}

TEST(Ranking, draws_each_place_among_ties_alike_and_by_seed) {
  const std::vector<double> scores{2, 3, 2, 1, 2};
  int count[6] = {};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const double rank = rank_of(scores, Ties::random, seed);
    EXPECT_EQ(rank, rank_of(scores, Ties::random, seed));
    ++count[int(rank)];
  }
  EXPECT_EQ(count[1] + count[5], 0);
  // 1,000 of each; a deviation is 26
  for (int rank : {2, 3, 4}) EXPECT_NEAR(count[rank], 1000, 130) << rank;
}

TEST(Ranking, figures_are_means_over_queries) {
  const std::vector<double> ranks{1, 2, 4, 20};
  const RankFigures f = rank_figures(ranks);
  EXPECT_DOUBLE_EQ(f.mrr, (1 + 0.5 + 0.25 + 0.05) / 4);
  EXPECT_DOUBLE_EQ(f.hits1, 0.25);
  EXPECT_DOUBLE_EQ(f.hits3, 0.5);
  EXPECT_DOUBLE_EQ(f.hits10, 0.75);
}

TEST(Ranking, average_precision_is_the_sum_over_thresholds) {
  // scikit-learn's example: 0.8333
  EXPECT_NEAR(
      average_precision(std::vector<double>{0.1, 0.4, 0.35, 0.8}, {false, false, true, true}),
      0.8333333333, 1e-9);
  EXPECT_EQ(average_precision(std::vector<double>{3, 2, 1}, {true, true, false}), 1);
  // scores that tell nothing: the share of what is true
  EXPECT_DOUBLE_EQ(average_precision(std::vector<double>{1, 1, 1, 1}, {true, false, false, false}),
                   0.25);
  EXPECT_TRUE(std::isnan(average_precision(std::vector<double>{1, 2}, {false, false})));
}

TEST(Ranking, average_precision_agrees_with_a_walk_over_all_thresholds) {
  Rng rng(5, stream_id(Purpose::eval, 9), 0);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> scores;
    std::vector<bool> relevant;
    for (int i = 0; i < 40; ++i)
      scores.push_back(double(rng.below(12))), relevant.push_back(rng.below(3) == 0);
    relevant[0] = true;
    double all = 0, sum = 0, before = 0;
    for (bool r : relevant) all += r;
    for (int threshold = 12; threshold >= 0; --threshold) {
      double taken = 0, right = 0;
      for (size_t i = 0; i < scores.size(); ++i)
        if (scores[i] >= threshold) ++taken, right += relevant[i];
      if (taken == 0) continue;
      sum += (right - before) / all * right / taken;
      before = right;
    }
    EXPECT_NEAR(average_precision(scores, relevant), sum, 1e-12);
  }
}

}  // namespace
}  // namespace maglev
