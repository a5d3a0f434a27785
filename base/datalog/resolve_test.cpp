#include "base/datalog/resolve.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/philox.h"
#include "base/datalog/dataset.h"
#include "tests/small_graph.h"

namespace maglev::datalog {
namespace {

// One step of resolution as a textbook has it, on names: terms are strings, those that begin with
// '?' are variables, a substitution is a map, and every fact and rule is tried.

struct NamedAtom {
  std::string predicate, first, second;
  auto operator<=>(const NamedAtom&) const = default;
};
using NamedGoal = std::vector<NamedAtom>;
using Substitution = std::map<std::string, std::string>;

bool names_variable(const std::string& term) { return term[0] == '?'; }

std::string walked(const Substitution& s, std::string term) {
  for (auto bound = s.find(term); bound != s.end(); bound = s.find(term)) term = bound->second;
  return term;
}

bool unified(Substitution& s, const std::string& a, const std::string& b) {
  const std::string x = walked(s, a), y = walked(s, b);
  if (x == y) return true;
  if (names_variable(x)) return s[x] = y, true;
  if (names_variable(y)) return s[y] = x, true;
  return false;
}

std::optional<Substitution> unifier(const NamedAtom& a, const NamedAtom& b) {
  Substitution s;
  if (a.predicate == b.predicate && unified(s, a.first, b.first) && unified(s, a.second, b.second))
    return s;
  return std::nullopt;
}

NamedGoal substituted(const Substitution& s, NamedGoal goal) {
  for (NamedAtom& a : goal) a.first = walked(s, a.first), a.second = walked(s, a.second);
  return goal;
}

/// A goal's text, its variables called by the order in which they occur.
std::string canonical(const NamedGoal& goal) {
  std::map<std::string, std::string> names;
  const auto name = [&](const std::string& term) {
    if (!names_variable(term)) return term;
    return names.try_emplace(term, "?" + std::to_string(names.size())).first->second;
  };
  std::string text;
  for (const NamedAtom& a : goal) {
    text += a.predicate + "(" + name(a.first);
    text += "," + name(a.second) + ") ";
  }
  return text;
}

struct NamedRule {
  NamedAtom head;
  NamedGoal body;
};

struct Oracle {
  std::set<NamedAtom> facts;
  std::vector<NamedRule> rules;
  std::optional<NamedAtom> excluded;
  size_t max_atoms;
  bool prune;

  std::multiset<std::string> children;
  int dropped = 0;

  void keep(NamedGoal child) {
    if (prune)
      std::erase_if(child, [&](const NamedAtom& a) {
        return !names_variable(a.first) && !names_variable(a.second) && facts.contains(a) &&
               a != excluded;
      });
    if (child.size() > max_atoms) ++dropped;
    else children.insert(canonical(child));
  }

  void resolve(const NamedGoal& goal) {
    const NamedGoal rest(goal.begin() + 1, goal.end());
    for (const NamedAtom& fact : facts) {
      if (fact == excluded) continue;
      if (const auto s = unifier(goal[0], fact)) keep(substituted(*s, rest));
    }
    for (const NamedRule& rule : rules) {
      // its variables are not the goal's
      const auto apart = [](NamedAtom a) {
        for (std::string* term : {&a.first, &a.second})
          if (names_variable(*term)) *term = "?rule" + *term;
        return a;
      };
      const auto s = unifier(goal[0], apart(rule.head));
      if (!s) continue;
      NamedGoal child;
      for (const NamedAtom& a : rule.body) child.push_back(apart(a));
      child.insert(child.end(), rest.begin(), rest.end());
      keep(substituted(*s, child));
    }
  }
};

NamedAtom named(const Program& p, const Atom& a) {
  const auto term = [&](int32_t t) {
    if (t < 0) return "?" + std::to_string(-t);
    return t > p.constants.size() ? "?goal" + std::to_string(t) : p.constants.of(t);
  };
  return {p.predicates.of(a.predicate), term(a.first), term(a.second)};
}
NamedGoal named(const Program& p, const Atom* atoms, int32_t count) {
  NamedGoal goal;
  for (int32_t i = 0; i < count; ++i) goal.push_back(named(p, atoms[i]));
  return goal;
}

struct Step {
  std::multiset<std::string> children;
  std::vector<Child> in_order;
  int32_t dropped;
};

Step step_of(const Program& p, const Knowledge& k, const Resolve& how,
             const std::vector<Atom>& goal) {
  int32_t next = k.constants + 1;
  for (const Atom& a : goal) next = std::max({next, a.first + 1, a.second + 1});
  Step step;
  Child child;
  step.dropped =
      resolve(k, how, goal.data(), int32_t(goal.size()), next, child, [&](const Child& c) {
        step.children.insert(canonical(named(p, c.atoms, c.size)));
        step.in_order.push_back(c);
        return true;
      });
  return step;
}

/// Small graphs full of what is rare in large ones: few names, so that variables meet, repeat and
/// chain.
class RandomCase {
 public:
  explicit RandomCase(uint64_t seed) : rng_(seed, stream_id(Purpose::env, 0), 0) {
    constants_ = 1 + below(5), predicates_ = 1 + below(3);
    for (int32_t i = 0; i < constants_; ++i) program.constants.add("c" + std::to_string(i));
    for (int32_t i = 0; i < predicates_; ++i) program.predicates.add("p" + std::to_string(i));
    for (int32_t i = below(16); i > 0; --i)
      program.facts.push_back({1 + below(predicates_), constant(), constant()});
    for (int32_t i = below(7); i > 0; --i) program.rules.push_back(rule());
    for (int32_t i = 1 + below(4); i > 0; --i) {
      const auto term = [&] { return below(2) ? constant() : constants_ + 1 + below(3); };
      goal.push_back({1 + below(predicates_), term(), term()});
    }
    how.prune = below(4) > 0;
    how.max_atoms = int32_t(goal.size()) + below(4);
    // the query is a fact, the goal itself, or there is none
    const int32_t which = below(3);
    if (which == 0 && !program.facts.empty())
      how.excluded = program.facts[size_t(below(int32_t(program.facts.size())))];
    if (which == 1 && goal[0].first <= constants_ && goal[0].second <= constants_)
      how.excluded = goal[0];
  }

  Program program;
  std::vector<Atom> goal;
  Resolve how;

 private:
  int32_t below(int32_t n) { return int32_t(rng_.below(uint32_t(n))); }
  int32_t constant() { return 1 + below(constants_); }

  Rule rule() {
    Rule r;
    const auto term = [&] { return below(4) ? -1 - below(3) : constant(); };
    for (int32_t i = below(4); i > 0; --i)
      r.body.push_back({1 + below(predicates_), term(), term()});
    const auto safe = [&] {
      const int32_t t = term();
      for (const Atom& a : r.body)
        if (a.first == t || a.second == t) return t;
      return constant();
    };
    r.head = {1 + below(predicates_), safe(), safe()};
    r.variables = {"X", "Y", "Z"};
    return r;
  }

  Rng rng_;
  int32_t constants_, predicates_;
};

/// All of a program, named.
Oracle oracle_of(const Program& p, const Resolve& how) {
  Oracle oracle{.max_atoms = size_t(how.max_atoms), .prune = how.prune};
  for (const Atom& fact : p.facts) oracle.facts.insert(named(p, fact));
  for (const Rule& r : p.rules)
    oracle.rules.push_back({named(p, r.head), named(p, r.body.data(), int32_t(r.body.size()))});
  if (how.excluded.predicate) oracle.excluded = named(p, how.excluded);
  return oracle;
}

TEST(Resolve, gives_the_children_that_trying_every_fact_and_rule_gives) {
  int64_t children = 0, dropped = 0, proofs = 0, excluded = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const RandomCase c(seed);
    const Program& p = c.program;
    Oracle oracle = oracle_of(p, c.how);
    oracle.resolve(named(p, c.goal.data(), int32_t(c.goal.size())));

    const OwnedKnowledge knowledge(p);
    const Step step = step_of(p, *knowledge, c.how, c.goal);
    ASSERT_EQ(step.children, oracle.children) << "seed " << seed;
    ASSERT_EQ(step.dropped, oracle.dropped) << "seed " << seed;
    children += std::ssize(step.in_order), dropped += step.dropped;
    proofs += int64_t(step.children.count(""));
    excluded += c.how.excluded.predicate && oracle.facts.contains(*oracle.excluded);
  }
  // every kind was there
  EXPECT_GT(children, 20000);
  EXPECT_GT(dropped, 1000);
  EXPECT_GT(proofs, 1000);
  EXPECT_GT(excluded, 1000);
}

// along random walks from queries of graphs that are shipped
TEST(Resolve, gives_the_children_of_trying_everything_on_built_in_graphs_too) {
  for (const char* name : {"family", "countries_s1", "countries_s3"}) {
    const Dataset data = open_dataset(name);
    const Program& p = data.program;
    const OwnedKnowledge k(p);
    Rng rng(5, stream_id(Purpose::env, 1), 0);
    int64_t children = 0;
    Resolve how{.max_atoms = 6};
    Oracle oracle = oracle_of(p, how);
    for (int walk = 0; walk < 12; ++walk) {
      std::vector<Atom> goal{data.test[rng.below(uint32_t(data.test.size()))]};
      how.excluded = goal[0], oracle.excluded = named(p, goal[0]);
      for (int depth = 0; depth < 6 && !goal.empty(); ++depth) {
        oracle.children.clear(), oracle.dropped = 0;
        oracle.resolve(named(p, goal.data(), int32_t(goal.size())));
        const Step step = step_of(p, *k, how, goal);
        ASSERT_EQ(step.children, oracle.children) << name;
        ASSERT_EQ(step.dropped, oracle.dropped) << name;
        children += std::ssize(step.in_order);
        if (step.in_order.empty()) break;
        const Child& next = step.in_order[rng.below(uint32_t(step.in_order.size()))];
        goal.assign(next.atoms, next.atoms + next.size);
        rename_variables(goal.data(), next.size, k->constants);
      }
    }
    EXPECT_GT(children, 20) << name;
  }
}

TEST(Resolve, takes_facts_in_their_order_and_then_rules_in_the_programs) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const RandomCase c(seed);
    const OwnedKnowledge k(c.program);
    int32_t last_fact = -1, last_rule = -1;
    for (const Child& child : step_of(c.program, *k, c.how, c.goal).in_order) {
      if (child.rule < 0) {
        ASSERT_EQ(last_rule, -1) << "a fact behind a rule, seed " << seed;
        ASSERT_GT(child.fact, last_fact) << "seed " << seed;
        last_fact = child.fact;
      } else {
        const int32_t rule = k->rule_of_program(child.rule);
        ASSERT_GT(rule, last_rule) << "seed " << seed;
        ASSERT_EQ(c.program.rules[size_t(rule)].head.predicate, c.goal[0].predicate);
        last_rule = rule;
      }
    }
  }
}

TEST(Resolve, says_what_it_put_in_the_place_of_each_variable) {
  int64_t bindings = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const RandomCase c(seed);
    const OwnedKnowledge k(c.program);
    for (Child& child : step_of(c.program, *k, c.how, c.goal).in_order) {
      bindings += child.bound;
      if (child.fact < 0) continue;
      const Unifier u{child, k->constants};
      const Atom& first = c.goal[0];
      ASSERT_EQ((Atom{first.predicate, u.now(first.first), u.now(first.second)}),
                k->fact(child.fact));
    }
  }
  EXPECT_GT(bindings, 1000);
}

TEST(Resolve, stops_when_it_is_told_to) {
  SmallGraph graph("p(a,b). p(a,c). p(X,Y) :- p(Y,X).");
  const OwnedKnowledge k(graph.program);
  const auto goal = graph.goal("p(a,X)");
  Child child;
  int calls = 0;
  resolve(*k, {}, goal.data(), 1, goal[0].second + 1, child,
          [&](const Child&) { return ++calls < 2; });
  EXPECT_EQ(calls, 2);
}

TEST(Resolve, a_query_proves_neither_itself_nor_a_later_atom) {
  SmallGraph graph("p(a,b). q(a,b). q(X,Y) :- p(X,Y), q(X,Y).");
  const OwnedKnowledge k(graph.program);
  const auto goal = graph.goal("q(a,b)");
  // the rule's body has the query once more, which stays; p(a,b) is known
  const Step step = step_of(graph.program, *k, {.excluded = goal[0]}, goal);
  EXPECT_EQ(step.children, (std::multiset<std::string>{"q(a,b) "}));
  // without the exclusion the fact proves it, and so does the rule
  const Step plain = step_of(graph.program, *k, {}, goal);
  EXPECT_EQ(plain.children, (std::multiset<std::string>{"", ""}));
}

TEST(SelectBound, brings_the_first_atom_with_a_constant_to_the_front) {
  SmallGraph graph("p(a,b).");
  const auto selected = [&](const char* text) {
    auto goal = graph.goal(text);
    select_bound(goal.data(), int32_t(goal.size()), graph.program.constants.size());
    return goal;
  };
  // X, Y and Z are 3, 4 and 5
  EXPECT_EQ(selected("p(X,Y), p(Y,Z), p(Z,a), p(b,X)"),
            (std::vector<Atom>{{1, 5, 1}, {1, 3, 4}, {1, 4, 5}, {1, 2, 3}}));
  EXPECT_EQ(selected("p(a,Y), p(b,b)"), graph.goal("p(a,Y), p(b,b)"));
  EXPECT_EQ(selected("p(X,Y), p(Y,X)"), graph.goal("p(X,Y), p(Y,X)"));
}

TEST(RenameVariables, numbers_them_in_the_order_in_which_they_occur) {
  SmallGraph graph("p(a,b).");
  auto goal = graph.goal("p(X,Y), p(Z,X), p(a,Z)");
  auto renamed = goal;
  for (Atom& a : renamed)
    for (int32_t* term : {&a.first, &a.second})
      if (*term > 2) *term = 100 - *term;
  EXPECT_EQ(rename_variables(renamed.data(), 3, 2), 6);
  EXPECT_EQ(renamed, goal);
  EXPECT_EQ(rename_variables(renamed.data(), 3, 2), 6);
  EXPECT_EQ(renamed, goal);
}

TEST(RenameVariables, keeps_ids_below_two_an_atom) {
  std::vector<Atom> goal;
  for (int32_t i = 0; i < kMaxAtoms; ++i) goal.push_back({1, 1000 + 7 * i, 1003 + 7 * i});
  EXPECT_EQ(rename_variables(goal.data(), kMaxAtoms, 5), 5 + 2 * kMaxAtoms + 1);
  EXPECT_EQ(goal.back(), (Atom{1, 5 + 2 * kMaxAtoms - 1, 5 + 2 * kMaxAtoms}));
}

TEST(GoalHash, is_of_the_set_of_atoms) {
  const Atom goal[] = {{1, 1, 2}, {2, 3, 4}, {1, 5, 5}}, turned[] = {goal[2], goal[0], goal[1]};
  EXPECT_EQ(hash_of(goal, 3), hash_of(turned, 3));
  EXPECT_NE(hash_of(goal, 3), hash_of(goal, 2));
}

// a sum of products would be the same for each of these pairs
TEST(GoalHash, tells_goals_apart_whose_terms_changed_places) {
  std::set<uint64_t> hashes;
  for (int32_t a = 1; a < 12; ++a)
    for (int32_t b = 1; b < 12; ++b)
      for (int32_t c = 1; c < 12; ++c)
        for (int32_t d = 1; d < 12; ++d) {
          const Atom goal[] = {{1, a, b}, {2, c, d}};
          hashes.insert(hash_of(goal, 2));
        }
  EXPECT_EQ(hashes.size(), size_t(11 * 11 * 11 * 11));
}

}  // namespace
}  // namespace maglev::datalog
