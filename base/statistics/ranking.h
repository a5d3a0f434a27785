#pragma once
// How well scores put what is true before what is not: ranks among candidates, what is made of them
// (Bordes et al., NeurIPS 2013), and the area under precision and recall.

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>

#include "base/statistics/samples.h"

namespace maglev {

/// Where the true one stands among candidates of its score (Berrendorf et al., 2020): anywhere, drawn;
/// in the middle; before all of them; behind them.
enum class Ties { random, realistic, optimistic, pessimistic };
constexpr auto names_of(Ties) {
  return std::array<std::string_view, 4>{"random", "realistic", "optimistic", "pessimistic"};
}

/// The rank of `truth` among `others`, 1 the best; greater scores are better. Realistic ranks may end
/// in a half. Random ones are a function of (seed, query). Throws Error where a score is NaN.
double rank_of(double truth, std::span<const double> others, Ties ties, uint64_t seed = 1,
               uint64_t query = 0);

struct RankSummary {
  int64_t count = 0;
  double mrr = 0;  ///< mean of 1 / rank
  double mean_rank = 0;
  double hits_1 = 0, hits_3 = 0, hits_10 = 0;  ///< shares of ranks of at most 1, 3, 10
};
/// Of no ranks: zeros.
RankSummary summary_of(std::span<const double> ranks);
/// The same of the ranks with each key, e.g. a predicate or a depth; as many keys as ranks.
std::map<int32_t, RankSummary> summary_by(std::span<const double> ranks,
                                          std::span<const int32_t> keys);
/// Bootstrap interval of the MRR.
Interval mrr_interval(std::span<const double> ranks, double confidence = 0.95,
                      int64_t resamples = 10'000, uint64_t seed = 1);

/// Average precision: the sum over falling scores of precision times the gain in recall, equal scores
/// in one go, so that their order does not count. NaN without anything true. Throws Error where a
/// score is NaN.
double average_precision(std::span<const double> truths, std::span<const double> others);

}  // namespace maglev
