#pragma once
// How strong players are that met each other, on Elo's scale: the strengths under which the scores
// are likeliest (Bradley and Terry, "Rank analysis of incomplete block designs", 1952), found by
// Hunter's steps ("MM algorithms for generalized Bradley-Terry models", 2004).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace maglev {

/// Games of two players.
struct Meeting {
  size_t first, second;  ///< players
  int64_t games;
  double score;  ///< of the first: games won, and half of those drawn; 0 to games
  int64_t draws = 0;
};

struct Rating {
  double elo;  ///< 400 points are odds of ten to one; the players' mean is 1000
  /// Standard error of its distance from the mean: by the likelihood's curvature and by how far
  /// scores spread, which is less in a game of many draws (a sandwich: White, "Maximum likelihood
  /// estimation of misspecified models", 1982).
  double error;
};

/// Of `players` players. One drawn game more of each against somebody in the middle is counted
/// besides: ratings are finite also where somebody won or lost every game, or met nobody.
std::vector<Rating> ratings(size_t players, std::span<const Meeting> meetings);

}  // namespace maglev
