#pragma once
// One score of embedding, rules and proofs, with weights that queries of valid find.

#include <cstdint>
#include <vector>

#include "base/core/thread_pool.h"

namespace maglev::verbs::rank {

/// What a candidate's joined score is made of, one of each candidate of a question, the true one
/// first. `rules` and `proof` in [0, 1], or empty: there is none.
struct ScoreParts {
  std::vector<double> embedding;  ///< the logarithm of its likelihood among all constants
  std::vector<double> rules;      ///< score_by_rules
  std::vector<double> proof;      ///< e^worth() of the proof; 0: not proved, or not tried
};

/// joined = embedding + rules * its weight + proof * its weight.
struct Weights {
  double rules = 0, proof = 0;
  int64_t questions = 0;     ///< that they were found by
  double mrr = 0;            ///< of these by the joined score, the mean place among equals
  double embedding_mrr = 0;  ///< of these by the embedding alone, which is no better
};

/// The weights of the greatest MRR among 0 and 2^-3 to 2^8 in steps of a half power, all pairs of
/// them; of several the least, by rules first. At least one question. The same for any number of
/// threads.
Weights find_weights(const std::vector<ScoreParts>& questions, ThreadPool& pool);

/// A question's joined scores.
std::vector<double> join(const ScoreParts& parts, const Weights& weights);

}  // namespace maglev::verbs::rank
