#include "base/datalog/proof.h"

#include <algorithm>

#include "base/core/error.h"

namespace maglev::datalog {
namespace {

/// An atom still to prove, and the node of the tree that it is.
struct OpenAtom {
  Atom atom;
  int32_t node;
};

/// Replays a derivation without renaming: a variable stands for the same all along.
class Derivation {
 public:
  Derivation(const Knowledge& k, const Resolve& how, const Atom& query, Selection selection)
      : k_(k), how_(how), selection_(selection) {
    proof_.query = query;
    goal_ = {{query, 0}};
    proof_.tree.push_back({.atom = query});
    next_ = std::max({k.constants, query.first, query.second}) + 1;
    value_.resize(size_t(next_ - k.constants - 1), 0);
  }

  void take(const Move& move) {
    MAGLEV_ASSERT(!goal_.empty(), "a proof goes on behind its end");
    if (selection_ == Selection::bound) put_bound_first();
    ProofStep step{.node = goal_[0].node};
    for (const OpenAtom& open : goal_) step.goal.push_back(now(open.atom));
    const OpenAtom first = goal_[0];
    std::vector<OpenAtom> rest(goal_.begin() + 1, goal_.end());
    goal_.clear();
    if (move.fact >= 0) match(first.atom, k_.fact(move.fact), step);
    else take_rule(first, move.rule, step);
    goal_.insert(goal_.end(), rest.begin(), rest.end());
    strike_facts(step);
    proof_.steps.push_back(std::move(step));
  }

  Proof finish() {
    MAGLEV_ASSERT(goal_.empty(), "the moves of a proof end in the empty goal");
    for (ProofNode& node : proof_.tree) {
      node.atom = now(node.atom);
      for (int32_t& term : node.substitution) term = now(term);
    }
    proof_.answer = proof_.tree[0].atom;
    return std::move(proof_);
  }

 private:
  bool variable(int32_t term) const { return term > k_.constants; }
  int32_t now(int32_t term) const {
    while (variable(term)) {
      const int32_t value = value_[size_t(term - k_.constants - 1)];
      if (!value) break;
      term = value;
    }
    return term;
  }
  Atom now(const Atom& a) const { return {a.predicate, now(a.first), now(a.second)}; }
  int32_t new_variable() {
    value_.push_back(0);
    return next_++;
  }

  void put_bound_first() {
    const auto bound = std::find_if(goal_.begin(), goal_.end(), [&](const OpenAtom& open) {
      const Atom a = now(open.atom);
      return !variable(a.first) || !variable(a.second);
    });
    if (bound != goal_.end()) std::rotate(goal_.begin(), bound, bound + 1);
  }

  void match(int32_t a, int32_t b, ProofStep& step) {
    a = now(a), b = now(b);
    if (a == b) return;
    if (!variable(a)) std::swap(a, b);
    MAGLEV_ASSERT(variable(a), "a step of a proof unifies");
    value_[size_t(a - k_.constants - 1)] = b;
    step.bindings.push_back({a, b});
  }
  void match(const Atom& goal, const Atom& with, ProofStep& step) {
    MAGLEV_ASSERT(goal.predicate == with.predicate, "a step of a proof is of its predicate");
    match(goal.first, with.first, step);
    match(goal.second, with.second, step);
  }

  void take_rule(const OpenAtom& first, int32_t rule, ProofStep& step) {
    // variables of the head take the goal's terms, others are new
    std::vector<int32_t> taken;
    const auto instance = [&](int32_t of_rule, int32_t of_goal) {
      if (of_rule > 0) return of_rule;
      if (taken.size() < size_t(-of_rule)) taken.resize(size_t(-of_rule), 0);
      int32_t& term = taken[size_t(-of_rule - 1)];
      if (!term) term = of_goal ? of_goal : new_variable();
      return term;
    };
    const Atom& head = k_.head(rule);
    const int32_t one = instance(head.first, first.atom.first);
    const int32_t two = instance(head.second, first.atom.second);
    match(first.atom, {head.predicate, one, two}, step);
    const Range body = k_.body(rule);
    for (int32_t i = body.begin; i < body.end; ++i) {
      const Atom& a = k_.body_atom(i);
      const int32_t node = int32_t(proof_.tree.size());
      const int32_t left = instance(a.first, 0), right = instance(a.second, 0);
      proof_.tree.push_back({.atom = {a.predicate, left, right}});
      proof_.tree[size_t(first.node)].body.push_back(node);
      goal_.push_back({proof_.tree.back().atom, node});
    }
    ProofNode& node = proof_.tree[size_t(first.node)];
    node.rule = k_.rule_of_program(rule), node.substitution = taken;
  }

  void strike_facts(ProofStep& step) {
    if (!how_.prune) return;
    std::erase_if(goal_, [&](const OpenAtom& open) {
      const Atom a = now(open.atom);
      const bool fact =
          !variable(a.first) && !variable(a.second) && !(a == how_.excluded) && k_.find(a) >= 0;
      if (fact) step.struck.push_back(open.node);
      return fact;
    });
  }

  const Knowledge& k_;
  const Resolve& how_;
  const Selection selection_;
  Proof proof_;
  std::vector<OpenAtom> goal_;
  std::vector<int32_t> value_;  ///< of each variable; 0: none yet
  int32_t next_;
};

}  // namespace

Proof prove_along(const Knowledge& k, const Resolve& how, const Atom& query,
                  std::span<const Move> moves, Selection selection) {
  Derivation derivation(k, how, query, selection);
  for (const Move& move : moves) derivation.take(move);
  return derivation.finish();
}

}  // namespace maglev::datalog
