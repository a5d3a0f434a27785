#pragma once
// What is known of the candidates of questions, and the scores that it comes to.

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/embeddings/complex.h"
#include "verbs/rank/by_rules.h"
#include "verbs/rank/joined.h"
#include "verbs/rank/questions.h"
#include "verbs/rank/report.h"
#include "verbs/rank/trials.h"

namespace maglev::verbs::rank {

/// What candidates are ranked by. All outlives this.
struct Scorers {
  const datalog::Graph& graph;
  ThreadPool& pool;
  Aggregate aggregate = Aggregate::max;
  const ComplexEmbedding* embedding = nullptr;  ///< null: none
  Prover* prover = nullptr;                     ///< null: nothing is proved
  ActMode mode = ActMode::mean;                 ///< of proofs
  int64_t width = 1;                            ///< likewise, as Trying
  uint64_t seed = 0;                            ///< likewise
  /// Only so many candidates of each question are proved, those that the embedding puts first; 0:
  /// all.
  size_t shortlist = 0;
};

/// What is known of each question's candidates, in the questions' order, the true one first.
struct Ranking {
  std::vector<Question> questions;  ///< complete ones
  int64_t left_out = 0;             ///< questions without some of their proofs, because of a signal
  std::vector<FiredRules> fired;    ///< empty where the graph has no rules
  Scoring rules;                    ///< likewise
  std::vector<std::vector<double>> embedding;  ///< empty without one
  /// Of a question, the logarithm of the sum of all constants' e^score: less that a score is the
  /// logarithm of the embedding's likelihood.
  std::vector<double> embedding_total;
  std::vector<std::vector<Trial>> trials;  ///< empty where nothing is proved
  TrialCounts counts;
  int64_t candidates = 0;  ///< of the questions
  int64_t tried = 0;       ///< those whose proofs were tried, also of what was left out
  double seconds = 0;      ///< of the proofs
};

/// Leaves out the questions that `complete` does not name.
void keep(Ranking& ranking, const std::vector<bool>& complete);

/// While proofs are tried a status line says how far that is, and a signal ends it: what is
/// complete by then is ranked. Throws Error where a score is not finite.
Ranking ranking_of(std::vector<Question> questions, const Scorers& scorers);

/// The scorings of a ranking: proof (without a shortlist), embedding, rules, and joined where there
/// are weights.
std::vector<Scoring> scorings_of(const Ranking& ranking, const Scorers& scorers,
                                 const std::optional<Weights>& weights);

/// What a joined score is made of.
std::vector<ScoreParts> parts_of(const Ranking& ranking);

/// The places of the K best scores. Among those alike names decide, and not which one is true.
std::vector<size_t> best(const std::vector<double>& scores,
                         const std::vector<datalog::Atom>& candidates, size_t K);

}  // namespace maglev::verbs::rank
