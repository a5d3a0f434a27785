#include "base/statistics/ratings.h"

#include <cmath>

#include <gtest/gtest.h>

namespace maglev {
namespace {

double expected(double elo, double other) { return 1 / (1 + std::pow(10, (other - elo) / 400)); }

TEST(Ratings, players_who_share_their_points_are_alike) {
  const std::vector<Meeting> drawn{{.first = 0, .second = 1, .games = 100, .score = 50}};
  const auto rated = ratings(2, drawn);
  EXPECT_NEAR(rated[0].elo, 1000, 1e-6);
  EXPECT_NEAR(rated[1].elo, 1000, 1e-6);
}

TEST(Ratings, strengths_that_made_the_scores_are_found_again) {
  const std::vector<double> elo{1200, 1050, 950, 800};
  std::vector<Meeting> met;
  constexpr int64_t kGames = 100'000;  // beside which the drawn one is nothing
  for (size_t a = 0; a < elo.size(); ++a)
    for (size_t b = a + 1; b < elo.size(); ++b)
      met.push_back({a, b, kGames, double(kGames) * expected(elo[a], elo[b])});
  const auto rated = ratings(elo.size(), met);
  for (size_t i = 0; i < elo.size(); ++i)
    EXPECT_NEAR(rated[i].elo - rated[0].elo, elo[i] - elo[0], 0.1) << i;
}

TEST(Ratings, who_lost_every_game_or_met_nobody_has_one_too) {
  const std::vector<Meeting> lost{{.first = 0, .second = 1, .games = 50, .score = 50}};
  const auto rated = ratings(3, lost);
  EXPECT_GT(rated[0].elo, rated[1].elo + 200);
  EXPECT_TRUE(std::isfinite(rated[0].elo) && std::isfinite(rated[1].elo));
  EXPECT_NEAR(rated[2].elo, 1000, 1e-3);
  EXPECT_GT(rated[2].error, 100) << "nobody knows";
}

// two of one strength: the difference has the variance 1 / (n p (1 - p)), each a quarter of it
TEST(Ratings, the_error_of_two_who_are_alike_is_the_binomials) {
  const int64_t games = 10'000;
  const auto rated = ratings(2, std::vector<Meeting>{{0, 1, games, double(games) / 2}});
  EXPECT_NEAR(rated[0].error, 400 / std::log(10.) * std::sqrt(4. / double(games)) / 2, 1e-2);
}

}  // namespace
}  // namespace maglev
