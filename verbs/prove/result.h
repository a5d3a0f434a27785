#pragma once
// What a search gave, and the words for it that text, page and JSON share.

#include <array>
#include <string>
#include <vector>

#include "base/datalog/dataset.h"
#include "base/datalog/proof.h"
#include "base/datalog/search.h"
#include "verbs/prove/query.h"

namespace maglev::verbs::prove {

/// How goals are gone through: the searches there are, and a beam whose scores are a run's policy.
enum class Kind { breadth, deepening, beam, policy };
constexpr auto names_of(Kind) { return std::array{"breadth", "deepening", "beam", "policy"}; }

struct Result {
  const datalog::Dataset* data;
  Query query;
  Kind kind = Kind::breadth;
  datalog::SearchOptions options;
  std::vector<datalog::Proof> proofs;  ///< one for each answer that was asked for
  bool more = false;                   ///< the search was not over: there may be other answers
  datalog::SearchReport report;
  double seconds = 0;
};

/// "uncle(ann,X)", with the names the query has.
std::string query_text(const Result& result);
/// "proved in 3 steps", "no proof", "2 answers", ...
std::string outcome_text(const Result& result);
/// Why there is no answer, or what may be missing: a line each. Empty when nothing was left out.
std::vector<std::string> reasons_of(const Result& result);
/// "breadth first: 12 goals resolved, 340 children, depth 3, 0.2 ms".
std::string effort_text(const Result& result);
/// "X = ann, Y = bob" of a node that a rule proved.
std::string bindings_text(const datalog::Program& program, const datalog::ProofNode& node);

/// A rule as files of ours have it: its confidence in front, to three digits, where that is not 1.
std::string rule_text(const datalog::Program& program, int32_t rule);

}  // namespace maglev::verbs::prove
