#include "verbs/rank/report.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace maglev::verbs::rank {

double proof_score(const Trial& trial) { return worth(trial) + (trial.proved ? 0 : kNotProved); }

Scoring ties_broken(const Scoring& scoring) {
  if (scoring.ties_by.empty()) return scoring;
  std::vector<std::pair<double, double>> all;
  const auto key = [&](size_t q, size_t c) {
    return std::pair(scoring.scores[q][c], scoring.ties_by[q][c]);
  };
  for (size_t q = 0; q < scoring.scores.size(); ++q)
    for (size_t c = 0; c < scoring.scores[q].size(); ++c) all.push_back(key(q, c));
  std::sort(all.begin(), all.end());
  Scoring places{.name = scoring.name, .scores = scoring.scores};
  for (size_t q = 0; q < places.scores.size(); ++q)
    for (size_t c = 0; c < places.scores[q].size(); ++c)
      places.scores[q][c] =
          double(std::lower_bound(all.begin(), all.end(), key(q, c)) - all.begin());
  return places;
}

std::vector<double> ranks_of(const Scoring& scoring, Ties ties, uint64_t seed) {
  std::vector<double> ranks;
  for (size_t q = 0; q < scoring.scores.size(); ++q)
    ranks.push_back(rank_of(scoring.scores[q], ties, seed + q));
  return ranks;
}

Figures figures_of(std::span<const size_t> which, const std::vector<Question>& questions,
                   const Scoring& scoring, const std::vector<double>& ranks,
                   const std::vector<std::vector<Trial>>& trials) {
  Figures f;
  f.questions = int64_t(which.size());
  std::vector<double> chosen, reciprocal, pooled;
  // what is asked of both arguments of a query is not drawn apart
  std::map<std::array<int32_t, 3>, std::pair<double, double>> of_query;
  std::vector<bool> relevant;
  // of the true ones, of the others: proved, tried
  double proved[2] = {}, tried[2] = {};
  for (size_t q : which) {
    chosen.push_back(ranks[q]);
    const datalog::Atom& query = questions[q].candidates[0];
    auto& [sum, count] = of_query[{query.predicate, query.first, query.second}];
    sum += 1 / ranks[q], count += 1;
    for (size_t c = 0; c < scoring.scores[q].size(); ++c) {
      pooled.push_back(scoring.scores[q][c]);
      relevant.push_back(c == 0);
      if (!trials.empty()) proved[c > 0] += trials[q][c].proved, tried[c > 0] += trials[q][c].tried;
    }
  }
  for (const auto& [query, sum] : of_query) reciprocal.push_back(sum.first / sum.second);
  f.rank = rank_figures(chosen);
  f.mrr = bootstrap_interval(reciprocal, mean_of);
  f.auc_pr = average_precision(pooled, relevant);
  f.proved_true = proved[0] / tried[0];
  f.proved_false = proved[1] / tried[1];
  return f;
}

}  // namespace maglev::verbs::rank
