#include "base/statistics/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/core/error.h"
#include "base/core/philox.h"

namespace maglev {

double rank_of(std::span<const double> scores, Ties ties, uint64_t seed) {
  double better = 0, alike = 0;
  for (double score : scores) MAGLEV_ASSERT(!std::isnan(score), "scores are numbers");
  for (double score : scores.subspan(1)) better += score > scores[0], alike += score == scores[0];
  switch (ties) {
    case Ties::optimistic:
      return 1 + better;
    case Ties::pessimistic:
      return 1 + better + alike;
    case Ties::realistic:
      return 1 + better + 0.5 * alike;
    case Ties::random:
      break;
  }
  // any place among those alike, each as likely
  return 1 + better + double(Rng(seed, stream_id(Purpose::eval, 1), 0).below(uint32_t(alike) + 1));
}

RankFigures rank_figures(std::span<const double> ranks) {
  RankFigures sum{};
  for (double rank : ranks) {
    sum.mrr += 1 / rank;
    sum.hits1 += rank <= 1, sum.hits3 += rank <= 3, sum.hits10 += rank <= 10;
  }
  const double n = double(ranks.size());
  return {sum.mrr / n, sum.hits1 / n, sum.hits3 / n, sum.hits10 / n};
}

double average_precision(std::span<const double> scores, const std::vector<bool>& relevant) {
  for (double score : scores) MAGLEV_ASSERT(!std::isnan(score), "scores are numbers");
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const double all = double(std::count(relevant.begin(), relevant.end(), true));
  double found = 0, sum = 0;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    // equal scores cannot be told apart: they come at once
    double here = 0;
    for (end = begin; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end)
      here += relevant[order[end]];
    found += here;
    sum += here / all * found / double(end);
  }
  return all > 0 ? sum : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace maglev
