#pragma once
// How well scores put the true candidate before the false ones: ranks, their means, and the area
// under the precision-recall curve.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace maglev {

/// Which place a true candidate gets among others of the same score (Berrendorf et al., "On the
/// ambiguity of rank-based evaluation of entity alignment or link prediction methods", 2020).
enum class Ties {
  random,       ///< drawn by a seed
  realistic,    ///< the mean of best and worst
  optimistic,   ///< before all of them
  pessimistic,  ///< behind all of them
};
constexpr auto names_of(Ties) {
  return std::array{"random", "realistic", "optimistic", "pessimistic"};
}

/// The rank, from 1, of scores[0] among all; larger is better. At least one score, none NaN.
/// `seed` is read where ties are drawn.
double rank_of(std::span<const double> scores, Ties ties, uint64_t seed = 0);

struct RankFigures {
  double mrr;                   ///< mean of 1 / rank, in (0, 1]
  double hits1, hits3, hits10;  ///< share of ranks up to 1, 3, 10
};
/// At least one rank.
RankFigures rank_figures(std::span<const double> ranks);

/// Average precision of scores of which `relevant` says what is true: the sum over thresholds of
/// precision times what it adds to recall, where equal scores are one threshold. No score is NaN.
/// NaN where nothing is true.
double average_precision(std::span<const double> scores, const std::vector<bool>& relevant);

}  // namespace maglev
