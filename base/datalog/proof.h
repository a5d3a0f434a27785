#pragma once
// A proof as data: the derivation, step after step as a search made it, and the tree it amounts to,
// each atom with the rule and the substitution that proved it, down to facts. `prove_along` makes
// one from the choices of whoever found it, a search or a policy; `is_proof` (proof_check.h) reads
// it against the program alone.
//
// The depth of a proof is the number of its steps: one for each rule, and one for each fact that
// binds a variable of the goal. A ground atom that is a fact is struck out of the goal where it
// appears and costs no step, but for the query. The environment, the searches and least_steps all
// count so.

#include <cstdint>
#include <span>
#include <vector>

#include "base/datalog/knowledge.h"
#include "base/datalog/resolve.h"

namespace maglev::datalog {

/// Which child of a goal was taken: a place in the facts or in the rules of Knowledge, the other
/// -1.
struct Move {
  int32_t fact = -1, rule = -1;
};

/// One step of resolution on the first atom of a goal.
struct ProofStep {
  std::vector<Atom> goal;         ///< before the step, leftmost first
  int32_t node = 0;               ///< which node of the tree its first atom is
  std::vector<Binding> bindings;  ///< variables of goals, and what the step put in their place
  std::vector<int32_t> struck;    ///< nodes of the facts that were struck out after it
};

/// A ground atom and why it holds.
struct ProofNode {
  Atom atom;
  int32_t rule = -1;                  ///< of the program; -1: the atom is a fact
  std::vector<int32_t> substitution;  ///< constants for the rule's variables -1, -2, ..
  std::vector<int32_t> body;          ///< nodes of the rule's body, in its order
};

/// Variables of goals lie above the constants; each name is taken once in a proof.
struct Proof {
  Atom query, answer;  ///< answer: the query with constants for its variables
  std::vector<ProofStep> steps;
  std::vector<ProofNode> tree;  ///< node 0 is the answer
};

/// The proof of `query` that takes these moves, one a step. The query's variables are those of
/// `how`'s goals: constants + 1 on. `how` as for resolve; its max_atoms is not asked. A move that
/// does not fit its goal, or moves that end elsewhere than in the empty goal, are our mistake.
Proof prove_along(const Knowledge& k, const Resolve& how, const Atom& query,
                  std::span<const Move> moves);

}  // namespace maglev::datalog
