#pragma once
// What rules say of a question, each rule by itself: its body is looked up among facts, and no rule
// is used for another, as AnyBURL applies rules (Meilicke et al., "Anytime bottom-up rule learning
// for knowledge graph completion", IJCAI 2019). One pass over the groundings that have the known
// argument answers for every candidate at once.

#include <cstdint>
#include <vector>

#include "base/datalog/knowledge.h"

namespace maglev::datalog {

/// predicate(known, ?), or predicate(?, known).
struct AskedAtom {
  int32_t predicate = 0, known = 0;
  bool asks_first = false;
};

/// A rule that gives a constant for an answer.
struct RuleAnswer {
  int32_t constant;
  int32_t rule;  ///< of Program::rules
};

class RuleAnswers {
 public:
  /// Of the program's rules but those of confidence 0, over the facts of its knowledge. Both
  /// outlive this.
  RuleAnswers(const Program& program, const Knowledge& k);

  /// What calls write meanwhile: one of a thread.
  struct Scratch {
    std::vector<uint32_t> seen;
    uint32_t stamp = 0;
  };

  /// Every answer of every rule once: by constant, then the surest rule first, then by the
  /// program's order. No fact stands in a body that proves it. A constant is no answer to a
  /// question of itself where the rule's head has two variables: as rules are mined, these are two
  /// constants. Any number of threads may ask, each with a scratch of its own.
  std::vector<RuleAnswer> of(const AskedAtom& question, Scratch& scratch) const;

 private:
  /// An atom of a body in the order in which it is looked up.
  struct Step {
    Atom atom;
    /// The one bound variable (-1, -2, ..) that later atoms still need: partial groundings that
    /// agree on it are followed once. 0: none is needed. kMore: several are, so every one is
    /// followed.
    int32_t carries;
  };
  static constexpr int32_t kMore = 1;
  struct Plan {
    int32_t rule;
    Atom head;
    std::vector<Step> steps;
  };
  class Grounding;

  Plan plan_of(int32_t rule, bool asks_first) const;

  const Program& program_;
  const Knowledge& k_;
  std::vector<Plan> plans_[2];  ///< by AskedAtom::asks_first; by predicate, the surest first
  std::vector<int32_t> begin_;  ///< of a predicate's plans, in both, as element predicate - 1
};

}  // namespace maglev::datalog
