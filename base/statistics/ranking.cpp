#include "base/statistics/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/core/error.h"
#include "base/core/philox.h"

namespace maglev {
namespace {

void expect_numbers(std::span<const double> scores) {
  for (double score : scores)
    if (std::isnan(score)) throw Error("[ranking] expected scores that are numbers, got NaN");
}

}  // namespace

double rank_of(double truth, std::span<const double> others, Ties ties, uint64_t seed,
               uint64_t query) {
  expect_numbers({&truth, 1});
  expect_numbers(others);
  const auto before =
      std::count_if(others.begin(), others.end(), [&](double s) { return s > truth; });
  const auto beside = std::count(others.begin(), others.end(), truth);
  const double first = 1 + double(before);
  switch (ties) {
    case Ties::random:
      return first +
             double(Rng(seed, stream_id(Purpose::eval, query), 0).below(uint32_t(beside) + 1));
    case Ties::realistic:
      return first + 0.5 * double(beside);
    case Ties::optimistic:
      return first;
    case Ties::pessimistic:
      return first + double(beside);
  }
  return first;
}

RankSummary summary_of(std::span<const double> ranks) {
  RankSummary s{.count = int64_t(ranks.size())};
  if (ranks.empty()) return s;
  const double share = 1 / double(ranks.size());
  for (double rank : ranks) {
    s.mrr += share / rank, s.mean_rank += share * rank;
    s.hits_1 += share * (rank <= 1), s.hits_3 += share * (rank <= 3),
        s.hits_10 += share * (rank <= 10);
  }
  return s;
}

std::map<int32_t, RankSummary> summary_by(std::span<const double> ranks,
                                          std::span<const int32_t> keys) {
  MAGLEV_ASSERT(ranks.size() == keys.size(), "each rank has a key");
  std::map<int32_t, std::vector<double>> parts;
  for (size_t i = 0; i < ranks.size(); ++i) parts[keys[i]].push_back(ranks[i]);
  std::map<int32_t, RankSummary> summaries;
  for (const auto& [key, part] : parts) summaries[key] = summary_of(part);
  return summaries;
}

Interval mrr_interval(std::span<const double> ranks, double confidence, int64_t resamples,
                      uint64_t seed) {
  std::vector<double> reciprocal;
  for (double rank : ranks) reciprocal.push_back(1 / rank);
  return bootstrap_interval(reciprocal, mean_of, confidence, resamples, seed);
}

double average_precision(std::span<const double> truths, std::span<const double> others) {
  expect_numbers(truths);
  expect_numbers(others);
  if (truths.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> t(truths.begin(), truths.end()), o(others.begin(), others.end());
  std::sort(t.begin(), t.end(), std::greater<>());
  std::sort(o.begin(), o.end(), std::greater<>());
  double sum = 0;
  for (size_t i = 0, j = 0; i < t.size();) {
    // all of one score together
    const size_t before = i;
    const double score = t[before];
    while (i < t.size() && t[i] == score) ++i;
    while (j < o.size() && o[j] >= score) ++j;
    sum += double(i - before) * double(i) / double(i + j);
  }
  return sum / double(t.size());
}

}  // namespace maglev
