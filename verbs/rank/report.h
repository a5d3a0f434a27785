#pragma once
// What the scores of a ranking come to, by way of scoring, argument, predicate and depth.

#include <span>
#include <string>
#include <vector>

#include "base/statistics/ranking.h"
#include "base/statistics/samples.h"
#include "verbs/rank/questions.h"
#include "verbs/rank/trials.h"

namespace maglev::verbs::rank {

/// One way to score, and what each question's candidates got, the true one first.
struct Scoring {
  std::string name;  ///< "proof", "embedding", "rules", "joined"
  std::vector<std::vector<double>> scores;
  /// What tells equal scores apart, likewise; empty: nothing.
  std::vector<std::vector<double>> ties_by = {};
};
/// The same order as scores alone: where something tells ties apart, each one's place among all.
Scoring ties_broken(const Scoring& scoring);

struct Figures {
  int64_t questions = 0;
  RankFigures rank{};
  Interval mrr{};     ///< bootstrap over queries, 95 %
  double auc_pr = 0;  ///< all candidates of all questions in one list
  /// Share of the true queries that were proved, of those tried; NaN: none was.
  double proved_true = 0;
  double proved_false = 0;  ///< likewise of the others
};

/// Ranks of the questions by a scoring, in their order.
std::vector<double> ranks_of(const Scoring& scoring, Ties ties, uint64_t seed);

/// Of the questions that `which` names. `trials` as scores, or empty where nothing was proved;
/// `ranks` of all questions.
Figures figures_of(std::span<const size_t> which, const std::vector<Question>& questions,
                   const Scoring& scoring, const std::vector<double>& ranks,
                   const std::vector<std::vector<Trial>>& trials);

/// A proof's score: its worth, and far below, by the log-probability of its actions, what was not
/// proved.
double proof_score(const Trial& trial);
constexpr double kNotProved = -1000;

}  // namespace maglev::verbs::rank
