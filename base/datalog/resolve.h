#pragma once
// One step of SLD resolution (Kowalski 1974): from a goal, a list of atoms to prove, to every goal
// that a fact or a rule makes of it. Its first atom is resolved; Resolve::select_bound says which
// that is. Whole numbers alone, so that host and device agree to the bit. The environment, the
// search and the tests all step through here.

#include <cstdint>

#include "base/core/hd.h"
#include "base/datalog/knowledge.h"

namespace maglev::datalog {

constexpr int32_t kMaxAtoms = 32;  ///< of a goal, at most

/// What goes into a step.
struct Resolve {
  int32_t max_atoms = kMaxAtoms;  ///< longer children are dropped and counted, never cut
  /// Never used as a fact, neither to resolve with nor to prune: the query, so that one which is a
  /// fact itself has to be proved by others. A predicate of 0: none.
  Atom excluded = {};
  bool prune = true;          ///< ground atoms that are facts are taken out of children
  bool select_bound = false;  ///< children begin with their first atom that has a constant
};

/// A variable of the goal, and what the step put in its place.
struct Binding {
  int32_t variable, term;
};

/// One child of a goal. Its variables are the goal's, and new ones from the goal's next on.
struct Child {
  Atom atoms[kMaxAtoms];
  int32_t size = 0;              ///< 0: proved
  int32_t fact = -1, rule = -1;  ///< what was used: a place in the facts, or in the rules
  Binding bindings[2];  ///< in the order in which they were made; later ones apply to earlier terms
  int32_t bound = 0;    ///< of them
};

/// The terms of one unification.
struct Unifier {
  Child& child;
  int32_t constants;

  MAGLEV_HD bool variable(int32_t term) const { return term > constants; }
  MAGLEV_HD int32_t now(int32_t term) const {
    for (int32_t i = 0; i < child.bound; ++i)
      if (child.bindings[i].variable == term) term = child.bindings[i].term;
    return term;
  }
  /// Makes two terms of the goal's kind equal.
  MAGLEV_HD bool unify(int32_t a, int32_t b) {
    a = now(a), b = now(b);
    if (a == b) return true;
    if (!variable(a)) {
      if (!variable(b)) return false;
      const int32_t swap = a;
      a = b, b = swap;
    }
    child.bindings[child.bound++] = {a, b};
    return true;
  }
};

/// Adds an atom to a child, unless it is known. False: there is no room.
MAGLEV_HD bool append(const Knowledge& k, const Resolve& how, const Atom& atom, Child& child) {
  const bool ground = atom.first <= k.constants && atom.second <= k.constants;
  if (how.prune && ground && !(atom == how.excluded) && k.find(atom) >= 0) return true;
  if (child.size == how.max_atoms) return false;
  child.atoms[child.size++] = atom;
  return true;
}

/// Moves the first atom with a constant to the front, so that the next step takes a list of facts
/// by that constant and not all of a predicate's. Any choice of the next atom leads to the same
/// proofs (Lloyd, Foundations of Logic Programming, 1987: independence of the computation rule).
MAGLEV_HD void select_bound(Atom* goal, int32_t atoms, int32_t constants) {
  int32_t i = 0;
  while (i < atoms && goal[i].first > constants && goal[i].second > constants) ++i;
  if (i == 0 || i == atoms) return;
  const Atom bound = goal[i];
  for (; i > 0; --i) goal[i] = goal[i - 1];
  goal[0] = bound;
}

/// Calls emit(const Child&) -> bool for each child of `goal`, `atoms` of 1 to max_atoms; facts
/// first, sorted as Knowledge has them, then rules in the program's order; until emit gives false.
/// A variable of the goal is in [constants + 1, next_variable). Returns how many children were
/// dropped because they had more than max_atoms.
template <class Emit>
MAGLEV_HD int32_t resolve(const Knowledge& k, const Resolve& how, const Atom* goal, int32_t atoms,
                          int32_t next_variable, Child& child, Emit&& emit) {
  const Atom first = goal[0];
  const bool bound_first = first.first <= k.constants, bound_second = first.second <= k.constants;
  int32_t dropped = 0;

  // the atoms behind the first, under the child's bindings
  const auto append_rest = [&](Unifier& u) {
    for (int32_t i = 1; i < atoms; ++i) {
      const Atom& a = goal[i];
      if (!append(k, how, {a.predicate, u.now(a.first), u.now(a.second)}, child)) return false;
    }
    return true;
  };

  const auto take = [&] {
    if (how.select_bound) select_bound(child.atoms, child.size, k.constants);
    return emit(child);
  };

  // facts: the shortest list that has all which match
  const int32_t only = bound_first && bound_second ? k.find(first) : -1;
  const Range places = bound_first && bound_second ? Range{only, only < 0 ? only : only + 1}
                       : bound_first               ? k.of_first(first.predicate, first.first)
                       : bound_second              ? k.of_second(first.predicate, first.second)
                                                   : k.of(first.predicate);
  for (int32_t i = places.begin; i < places.end; ++i) {
    child.size = child.bound = 0, child.rule = -1;
    child.fact = bound_second && !bound_first ? k.by_second(i) : i;
    const Atom& fact = k.fact(child.fact);
    Unifier u{child, k.constants};
    if (fact == how.excluded || !u.unify(first.first, fact.first) ||
        !u.unify(first.second, fact.second))
      continue;
    if (!append_rest(u)) ++dropped;
    else if (!take()) return dropped;
  }

  // rules: variables of the rule take the goal's terms, or new variables
  const Range rules = k.rules_of(first.predicate);
  for (int32_t r = rules.begin; r < rules.end; ++r) {
    child.size = child.bound = 0, child.fact = -1, child.rule = r;
    Unifier u{child, k.constants};
    int32_t taken[kMaxRuleVariables] = {}, next = next_variable;
    const auto unify_head = [&](int32_t of_rule, int32_t of_goal) {
      if (of_rule > 0) return u.unify(of_goal, of_rule);
      int32_t& term = taken[-of_rule - 1];
      if (term) return u.unify(of_goal, term);
      term = of_goal;
      return true;
    };
    const Atom& head = k.head(r);
    if (!unify_head(head.first, first.first) || !unify_head(head.second, first.second)) continue;
    const auto instance = [&](int32_t of_rule) {
      if (of_rule > 0) return of_rule;
      int32_t& term = taken[-of_rule - 1];
      if (!term) term = next++;
      return u.now(term);
    };
    const Range body = k.body(r);
    bool fits = true;
    for (int32_t i = body.begin; fits && i < body.end; ++i) {
      const Atom& a = k.body_atom(i);
      const int32_t one = instance(a.first), two = instance(a.second);
      fits = append(k, how, {a.predicate, one, two}, child);
    }
    if (!fits || !append_rest(u)) ++dropped;
    else if (!take()) return dropped;
  }
  return dropped;
}

/// Numbers the variables of a goal from constants + 1 on, in the order in which they occur: goals
/// that differ in names of variables alone become one, and ids stay below constants + 2 atoms + 1.
/// Returns the next free variable.
MAGLEV_HD int32_t rename_variables(Atom* goal, int32_t atoms, int32_t constants) {
  int32_t seen[2 * kMaxAtoms], count = 0;
  const auto rename = [&](int32_t& term) {
    if (term <= constants) return;
    int32_t i = 0;
    for (; i < count; ++i)
      if (seen[i] == term) break;
    if (i == count) seen[count++] = term;
    term = constants + 1 + i;
  };
  for (int32_t i = 0; i < atoms; ++i) rename(goal[i].first), rename(goal[i].second);
  return constants + 1 + count;
}

/// Of a goal as a set of atoms: the order in which they stand does not count.
MAGLEV_HD uint64_t hash_of(const Atom* goal, int32_t atoms) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < atoms; ++i) sum += mix(hash_of(goal[i]));
  return sum;
}

}  // namespace maglev::datalog
