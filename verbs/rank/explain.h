#pragma once
// Why a ranking is as it is: of single questions, who stands first, by which scores and rules.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/terminal.h"
#include "verbs/rank/ranking.h"

namespace maglev::verbs::rank {

/// A candidate of an explained question.
struct ExplainedCandidate {
  size_t candidate;            ///< of the question; 0: the true one
  int64_t place;               ///< from 1; among equal scores names decide
  std::vector<double> scores;  ///< of each scoring
};
/// The best candidates of a question, and the true one.
struct Explained {
  size_t question;
  std::vector<ExplainedCandidate> candidates;
};

/// Of the first `count` questions, by the last of `scorings`. The ranking has rules.
std::vector<Explained> explain(const Ranking& ranking, const std::vector<Scoring>& scorings,
                               size_t count);

/// A table of each question, the true candidate marked.
std::string explained_text(const std::vector<Explained>& explained, const Ranking& ranking,
                           const std::vector<Scoring>& scorings, const datalog::Program& program,
                           const Terminal& terminal);
/// A list of questions, with every rule of each candidate.
nlohmann::ordered_json explained_json(const std::vector<Explained>& explained,
                                      const Ranking& ranking, const std::vector<Scoring>& scorings,
                                      const datalog::Program& program);

}  // namespace maglev::verbs::rank
