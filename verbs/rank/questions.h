#pragma once
// What is ranked: a true triple among others that differ from it in one argument and are not known
// to be true (filtered corruptions: Bordes et al., NIPS 2013).

#include <cstdint>
#include <vector>

#include "envs/kg/kg.h"

namespace maglev::verbs::rank {

enum class Modes { both, head, tail };
constexpr auto names_of(Modes) { return std::array{"both", "head", "tail"}; }

struct Question {
  bool head = false;                      ///< the first argument is asked for
  int32_t depth = -1;                     ///< of the query's shortest proof, where it is known
  std::vector<datalog::Atom> candidates;  ///< the true one first
};

struct Asked {
  maglev::kg::Split split = maglev::kg::Split::test;
  Modes modes = Modes::both;
  int64_t queries = 0;      ///< drawn without repetition; 0: all, in their order
  int64_t corruptions = 0;  ///< of each question, likewise; 0: all
  bool filtered = true;
  /// What filtered candidates are not among; null: the graph's truths. Outlives the call.
  const datalog::Knowledge* truths = nullptr;
  uint64_t seed = 0;
};

constexpr int64_t kMostCandidates = 20'000'000;

/// The questions, by query and then by mode. A predicate's second argument is drawn from its
/// domain, where it has one. Throws Error where the split has no queries, or for more than
/// kMostCandidates candidates.
std::vector<Question> questions_of(const datalog::Graph& graph, const Asked& asked);

}  // namespace maglev::verbs::rank
