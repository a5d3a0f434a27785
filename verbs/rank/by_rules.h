#pragma once
// Candidates ranked by the confidences of the rules that speak for them, all candidates of a
// question in one pass over the rules' groundings (base/datalog/rule_answers.h).

#include <span>
#include <vector>

#include "base/core/thread_pool.h"
#include "verbs/rank/questions.h"
#include "verbs/rank/report.h"

namespace maglev::verbs::rank {

/// The rules that speak for each candidate of a question.
struct FiredRules {
  std::vector<int32_t> begin;  ///< [candidates + 1], of a candidate's rules
  std::vector<int32_t> rules;  ///< of Program::rules, a candidate's surest first

  std::span<const int32_t> of(size_t candidate) const {
    return std::span(rules).subspan(size_t(begin[candidate]),
                                    size_t(begin[candidate + 1] - begin[candidate]));
  }
};

/// Of each question, in their order; the same for any number of threads.
std::vector<FiredRules> fired_rules_of(const std::vector<Question>& questions,
                                       const datalog::Graph& graph, ThreadPool& pool);

/// What several rules that speak for a candidate come to.
enum class Aggregate {
  max,       ///< the surest; among equals the next surest, and so on (AnyBURL's)
  noisy_or,  ///< that one of them is right, as if they erred independently
};
constexpr auto names_of(Aggregate) { return std::array{"max", "noisy-or"}; }

/// Scoring "rules": in [0, 1], 0 where no rule speaks. Rules that nobody gave a confidence have 1,
/// so that by max the number of them decides.
Scoring score_by_rules(const std::vector<FiredRules>& fired, const datalog::Program& program,
                       Aggregate aggregate);

}  // namespace maglev::verbs::rank
