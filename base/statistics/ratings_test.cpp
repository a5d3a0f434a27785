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

// of n games a share d drawn: a score's variance is (1 - d) / 4 a game in place of 1 / 4
TEST(Ratings, the_error_is_less_where_games_are_drawn) {
  const int64_t games = 10'000;
  for (const double drawn : {0., 0.5, 0.75}) {
    const auto rated = ratings(
        2, std::vector<Meeting>{{0, 1, games, double(games) / 2, int64_t(drawn * double(games))}});
    EXPECT_NEAR(rated[0].error,
                400 / std::log(10.) * std::sqrt(4. * (1 - drawn) / double(games)) / 2, 1e-2)
        << drawn;
  }
}

// deviations of ratings over 20,000 tournaments that another program drew and rated: 400 games of
// each pair, 240 of them drawn
TEST(Ratings, the_error_is_what_repeated_tournaments_show) {
  const std::vector<double> elo{1050, 1000, 950}, seen{5.04, 5.15, 5.09};
  std::vector<Meeting> met;
  for (size_t a = 0; a < elo.size(); ++a)
    for (size_t b = a + 1; b < elo.size(); ++b)
      met.push_back({a, b, 400, 400 * expected(elo[a], elo[b]), 240});
  const auto rated = ratings(elo.size(), met);
  for (size_t i = 0; i < elo.size(); ++i) EXPECT_NEAR(rated[i].error, seen[i], 0.1) << i;
}

TEST(Ratings, who_drew_every_game_has_an_error_too) {
  const auto rated = ratings(2, std::vector<Meeting>{{0, 1, 40, 20, 40}});
  EXPECT_GT(rated[0].error, 1);
  EXPECT_LT(rated[0].error, 20);
}

}  // namespace
}  // namespace maglev
