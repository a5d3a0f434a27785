#include "base/datalog/search.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/thread_pool.h"
#include "base/datalog/answers.h"
#include "base/datalog/proof_check.h"
#include "tests/random_program.h"

namespace maglev::datalog {
namespace {

/// Everything that follows from a program, by trying every constant for every variable until
/// nothing is new. `without` is no fact.
std::set<std::string> least_model(const Program& p, const Atom& without) {
  std::set<std::string> model;
  for (const Atom& f : p.facts)
    if (!(f == without)) model.insert(to_text(p, f));
  for (size_t before = model.size() + 1; before != model.size();) {
    before = model.size();
    for (const Rule& r : p.rules) {
      std::vector<int32_t> value(r.variables.size(), 1);
      const auto instance = [&](Atom a) {
        if (a.first < 0) a.first = value[size_t(-a.first - 1)];
        if (a.second < 0) a.second = value[size_t(-a.second - 1)];
        return to_text(p, a);
      };
      for (bool more = true; more;) {
        bool holds = true;
        for (const Atom& a : r.body) holds = holds && model.contains(instance(a));
        if (holds) model.insert(instance(r.head));
        more = false;
        for (int32_t& v : value) {
          if (++v <= p.constants.size()) {
            more = true;
            break;
          }
          v = 1;
        }
      }
    }
  }
  return model;
}

/// The paper's derivations with terms as words: variables begin with '?'. Breadth first, nothing
/// remembered. Least steps to each answer.
class WordProver {
 public:
  using Words = std::vector<std::array<std::string, 3>>;

  WordProver(const Program& p, const Atom& without) {
    for (const Atom& f : p.facts)
      if (!(f == without)) facts_.insert(words(p, f, {}));
    for (const Rule& r : p.rules) {
      Words rule{words(p, r.head, r.variables)};
      for (const Atom& a : r.body) rule.push_back(words(p, a, r.variables));
      rules_.push_back(rule);
    }
  }

  /// Empty-handed: more than `most` goals came up.
  std::map<std::string, int> answers(const std::array<std::string, 3>& query, int depth,
                                     size_t most, bool& complete) {
    std::map<std::string, int> found;
    // the answer goes along as the last atom
    std::set<Words> goals{{query, query}};
    complete = true;
    for (int step = 1; step <= depth; ++step) {
      std::set<Words> next;
      for (const Words& goal : goals) {
        for (const auto& fact : facts_) resolve({fact}, goal, next);
        for (const Words& rule : rules_) resolve(rule, goal, next);
      }
      goals.clear();
      for (const Words& goal : next) {
        if (goal.size() == 1) found.emplace(goal[0][0] + goal[0][1] + goal[0][2], step);
        else goals.insert(goal);
      }
      if (goals.size() > most) return complete = false, found;
    }
    return found;
  }

 private:
  static std::array<std::string, 3> words(const Program& p, const Atom& a,
                                          const std::vector<std::string>& variables) {
    const auto word = [&](int32_t t) {
      return t > 0 ? p.constants.of(t) : "?" + variables[size_t(-t - 1)];
    };
    return {p.predicates.of(a.predicate), word(a.first), word(a.second)};
  }

  void resolve(Words rule, const Words& goal, std::set<Words>& next) const {
    for (auto& atom : rule)
      for (int i : {1, 2})
        if (atom[size_t(i)][0] == '?') atom[size_t(i)] += "'";
    std::map<std::string, std::string> bound;
    const auto walk = [&](std::string t) {
      while (bound.contains(t)) t = bound[t];
      return t;
    };
    if (rule[0][0] != goal[0][0]) return;
    for (size_t i : {1, 2}) {
      const std::string a = walk(rule[0][i]), b = walk(goal[0][i]);
      if (a == b) continue;
      if (a[0] == '?') bound[a] = b;
      else if (b[0] == '?') bound[b] = a;
      else return;
    }
    Words child(rule.begin() + 1, rule.end());
    child.insert(child.end(), goal.begin() + 1, goal.end());
    for (auto& atom : child) atom[1] = walk(atom[1]), atom[2] = walk(atom[2]);
    const auto answer = child.back();
    child.pop_back();
    std::erase_if(child, [&](const auto& atom) { return facts_.contains(atom); });
    child.push_back(answer);
    // names by place, so that equal goals are one
    std::map<std::string, std::string> names;
    for (auto& atom : child)
      for (size_t i : {1, 2})
        if (atom[i][0] == '?')
          atom[i] = names.emplace(atom[i], "?" + std::to_string(names.size())).first->second;
    next.insert(child);
  }

  std::set<std::array<std::string, 3>> facts_;
  std::vector<Words> rules_;
};

std::array<std::string, 3> words_of(const Program& p, const Atom& a) {
  const auto word = [&](int32_t t) {
    return t <= p.constants.size() ? p.constants.of(t) : "?" + std::to_string(t);
  };
  return {p.predicates.of(a.predicate), word(a.first), word(a.second)};
}

/// Steps of the first proof of each answer. Every proof is one.
std::map<std::string, int> answers_of(const Program& p, const Knowledge& k, const Atom& query,
                                      const SearchOptions& options, Ended* ended = nullptr) {
  std::map<std::string, int> found;
  Search search(k, query, options);
  int last = 0;
  while (const auto proof = search.next()) {
    EXPECT_EQ(fault_of(p, *proof, options.how.excluded), "");
    const auto w = words_of(p, proof->answer);
    EXPECT_TRUE(found.emplace(w[0] + w[1] + w[2], int(proof->steps.size())).second) << "twice";
    EXPECT_GE(int(proof->steps.size()), last) << "answers come in order of depth";
    last = int(proof->steps.size());
  }
  EXPECT_NE(search.report().ended, Ended::not_yet);
  if (ended) *ended = search.report().ended;
  return found;
}

TEST(Search, finds_what_a_prover_of_words_finds_in_as_many_steps_by_every_strategy) {
  ThreadPool pool(2);
  int proved = 0, compared = 0, decided = 0, alike = 0, doubted = 0;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const Program p = random_program(seed);
    const OwnedKnowledge k(p);
    Rng rng(seed, stream_id(Purpose::eval, 0), 0);
    const int32_t c = p.constants.size(), depth = 1 + int32_t(rng.below(4));
    // a constant, a variable, or the same one twice
    const auto term = [&](int32_t free) {
      return rng.below(2) ? 1 + int32_t(rng.below(uint32_t(c))) : c + free;
    };
    Atom query{1 + int32_t(rng.below(uint32_t(p.predicates.size()))), term(1),
               term(1 + int32_t(rng.below(3) > 0))};
    if (query.first <= c && query.second > c) query.second = c + 1;
    const Atom excluded = rng.below(2) ? p.facts[0] : Atom{};

    bool complete;
    const auto wanted = WordProver(p, excluded).answers(words_of(p, query), depth, 3000, complete);
    if (!complete) continue;
    ++compared;
    SearchOptions options{.depth = depth};
    options.how.excluded = excluded;
    Ended ended;
    EXPECT_EQ(answers_of(p, *k, query, options, &ended), wanted) << seed;
    options.strategy = Strategy::deepening;
    Ended also;
    EXPECT_EQ(answers_of(p, *k, query, options, &also), wanted) << seed;
    // it may meet a goal at its limit before it searches the same goal from elsewhere
    if (ended != Ended::searched || also != Ended::depth) EXPECT_EQ(ended, also) << seed;
    else ++doubted;
    // a beam that nothing falls off is breadth first
    options.strategy = Strategy::beam, options.width = 1 << 20;
    EXPECT_EQ(answers_of(p, *k, query, options), wanted) << seed;
    // a narrow one finds some of them
    options.width = 2;
    for (const auto& [answer, steps] : answers_of(p, *k, query, options)) {
      EXPECT_TRUE(wanted.contains(answer)) << seed;
      EXPECT_GE(steps, wanted.at(answer)) << seed;
    }
    proved += !wanted.empty();

    // what is searched to the end is all that follows
    if (ended == Ended::searched) {
      ++decided;
      // whichever atom is resolved, the same follows, in other numbers of steps
      SearchOptions bound{.depth = 3 * depth, .nodes = 20'000};
      bound.how.excluded = excluded, bound.how.select_bound = true;
      Ended of_bound;
      const auto others = answers_of(p, *k, query, bound, &of_bound);
      for (const auto& [answer, steps] : others) EXPECT_TRUE(wanted.contains(answer)) << seed;
      if (of_bound == Ended::searched) {
        ++alike;
        EXPECT_EQ(others.size(), wanted.size()) << seed;
      }
      const auto model = least_model(p, excluded);
      for (int32_t a = 1; a <= c; ++a)
        for (int32_t b = 1; b <= c; ++b) {
          if ((query.first <= c && query.first != a) || (query.second <= c && query.second != b) ||
              (query.first == query.second && a != b))
            continue;
          const auto w = words_of(p, {query.predicate, a, b});
          EXPECT_EQ(wanted.contains(w[0] + w[1] + w[2]),
                    model.contains(to_text(p, Atom{query.predicate, a, b})))
              << seed;
        }
    }
  }
  EXPECT_GT(compared, 4000);
  EXPECT_GT(proved, 2000);
  EXPECT_GT(decided, 1000);
  EXPECT_GT(alike, 1000);
  EXPECT_LT(doubted, 50);
}

TEST(Answers, least_steps_are_the_depth_of_the_first_proof_for_any_threads) {
  ThreadPool one(1), three(3);
  int64_t provable = 0, asked = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Program p = random_program(seed);
    const OwnedKnowledge k(p);
    const int32_t depth = 1 + int32_t(seed % 6);
    std::vector<Atom> queries;
    for (int32_t q = 1; q <= p.predicates.size(); ++q)
      for (int32_t a = 1; a <= p.constants.size(); ++a)
        for (int32_t b = 1; b <= p.constants.size(); ++b) queries.push_back({q, a, b});
    for (bool exclude : {false, true}) {
      const auto steps = least_steps(*k, queries, depth, exclude, one);
      EXPECT_EQ(steps, least_steps(*k, queries, depth, exclude, three));
      for (size_t i = 0; i < queries.size(); ++i) {
        SearchOptions options{.depth = depth, .nodes = 30'000};
        if (exclude) options.how.excluded = queries[i];
        Search search(*k, queries[i], options);
        const auto proof = search.next();
        if (search.report().ended == Ended::nodes || search.report().too_long) continue;
        EXPECT_EQ(steps[i], proof ? int32_t(proof->steps.size()) : -1)
            << seed << " " << to_text(p, queries[i]);
        provable += proof.has_value(), ++asked;
      }
    }
  }
  EXPECT_GT(provable, 10'000);
  EXPECT_GT(asked - provable, 20'000);
}

TEST(ProofCheck, finds_every_change_that_makes_a_proof_none) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Program p = random_program(seed);
    const OwnedKnowledge k(p);
    const int32_t c = p.constants.size();
    Search search(*k, {1, c + 1, c + 2}, {.depth = 4, .nodes = 20'000});
    for (std::optional<Proof> proof; (proof = search.next());) {
      const auto refused = [&](auto change) {
        Proof other = *proof;
        change(other);
        ++changed;
        EXPECT_NE(fault_of(p, other), "") << seed;
      };
      for (size_t i = 0; i < proof->tree.size(); ++i) {
        // another constant, as an atom no fact and no instance of the rule's head has
        refused([&](Proof& o) { o.tree[i].atom.first = o.tree[i].atom.first % c + 1; });
        refused([&](Proof& o) { o.tree[i].rule = int32_t(p.rules.size()); });
        if (!proof->tree[i].body.empty()) {
          refused([&](Proof& o) { o.tree[i].body.pop_back(); });
          refused([&](Proof& o) { o.tree[i].rule = -1; });
        }
        if (!proof->tree[i].substitution.empty()) {
          refused([&](Proof& o) { o.tree[i].substitution.pop_back(); });
          refused([&](Proof& o) { o.tree[i].substitution[0] = c + 1; });
        }
      }
      refused([&](Proof& o) { o.steps.pop_back(); });
      refused([&](Proof& o) { o.steps.push_back(o.steps.back()); });
      refused([&](Proof& o) { o.answer.predicate = 0; });
      refused([&](Proof& o) { o.query = {o.query.predicate, o.answer.first % c + 1, c + 1}; });
      // a fact that was used is not to be
      for (const ProofNode& node : proof->tree)
        EXPECT_EQ(fault_of(p, *proof, node.atom).empty(), node.rule >= 0);
    }
  }
  EXPECT_GT(changed, 20'000);
}

Program chain(int32_t length) {
  Program p;
  const int32_t next = p.predicates.add("next"), reach = p.predicates.add("reach");
  p.predicates.add("never");
  for (int32_t i = 0; i <= length; ++i) p.constants.add("n" + std::to_string(i));
  for (int32_t i = 1; i <= length; ++i) p.facts.push_back({next, i, i + 1});
  p.rules.push_back({{reach, -1, -2}, {{next, -1, -2}}, 1, {"X", "Y"}});
  p.rules.push_back({{reach, -1, -2}, {{reach, -1, -3}, {next, -3, -2}}, 1, {"X", "Y", "Z"}});
  return p;
}

TEST(Search, says_why_it_found_nothing) {
  const Program p = chain(8);
  const OwnedKnowledge k(p);
  const auto report = [&](const Atom& query, const SearchOptions& options) {
    Search search(*k, query, options);
    EXPECT_FALSE(search.next());
    return search.report();
  };
  for (Strategy strategy : {Strategy::breadth, Strategy::deepening, Strategy::beam}) {
    // neither fact nor rule
    const SearchReport none = report({3, 1, 2}, {.strategy = strategy});
    EXPECT_EQ(none.ended, Ended::searched);
    ASSERT_EQ(none.dead_ends.size(), 1u);
    EXPECT_EQ(none.dead_ends[0].atom, (Atom{3, 1, 2}));
    // further away than the depth allows; a left recursion ends at the limit
    const SearchReport deep = report({2, 1, 9}, {.strategy = strategy, .depth = 6});
    EXPECT_EQ(deep.ended, Ended::depth);
    EXPECT_GT(deep.too_deep, 0);
    const SearchReport nodes = report({2, 1, 9}, {.strategy = strategy, .nodes = 5});
    EXPECT_EQ(nodes.ended, Ended::nodes);
    EXPECT_EQ(nodes.children, 5);
    EXPECT_EQ(nodes.too_deep, 0);
    // longer goals are dropped and counted
    const SearchReport cut = report({2, 1, 9}, {.strategy = strategy, .how = {.max_atoms = 2}});
    EXPECT_EQ(cut.ended, Ended::searched);
    EXPECT_GT(cut.too_long, 0);
  }
  const SearchReport late = report({2, 1, 9}, {.seconds = 1e-9});
  EXPECT_EQ(late.ended, Ended::seconds);
}

TEST(Search, a_cycle_that_was_searched_is_no_limit_of_depth) {
  // to and fro between two places: a third is not reached, and no depth would help
  Program p;
  const int32_t next = p.predicates.add("next"), reach = p.predicates.add("reach");
  for (const char* name : {"a", "b", "c"}) p.constants.add(name);
  p.facts = {{next, 1, 2}, {next, 2, 1}};
  p.rules.push_back({{reach, -1, -2}, {{next, -1, -2}}, 1, {"X", "Y"}});
  p.rules.push_back({{reach, -1, -2}, {{next, -1, -3}, {reach, -3, -2}}, 1, {"X", "Y", "Z"}});
  const OwnedKnowledge k(p);
  for (Strategy strategy : {Strategy::breadth, Strategy::deepening, Strategy::beam}) {
    // goals repeat from depth 4 on; what lies at the limit then was met before
    for (int32_t depth : {6, 7, 8, 9, 20}) {
      Search search(*k, {reach, 1, 3}, {.strategy = strategy, .depth = depth});
      EXPECT_FALSE(search.next());
      EXPECT_EQ(search.report().ended, Ended::searched) << depth;
      EXPECT_EQ(search.report().too_deep, 0) << depth;
    }
    Search shallow(*k, {reach, 1, 3}, {.strategy = strategy, .depth = 2});
    EXPECT_FALSE(shallow.next());
    EXPECT_EQ(shallow.report().ended, Ended::depth);
  }
}

TEST(Search, a_beam_follows_the_scores_it_is_given) {
  // two rules lead on, one of them to the proof: scores decide which one a beam of one keeps
  Program p;
  for (const char* name : {"goal", "wrong", "right"}) p.predicates.add(name);
  p.constants.add("a");
  p.facts.push_back({3, 1, 1});
  p.rules.push_back({{1, -1, -2}, {{2, -1, -2}}, 1, {"X", "Y"}});
  p.rules.push_back({{1, -1, -2}, {{3, -1, -3}, {3, -3, -2}, {2, -1, -2}}, 1, {"X", "Y", "Z"}});
  p.rules.push_back({{2, -1, -2}, {{2, -2, -1}}, 1, {"X", "Y"}});
  p.rules.push_back({{1, -1, -2}, {{3, -1, -3}, {3, -3, -2}}, 1, {"X", "Y", "Z"}});
  const OwnedKnowledge k(p);
  size_t asked = 0;
  const auto prefer = [&](int32_t predicate) {
    return [&asked, predicate](std::span<const Expansion> expansions, std::span<float> scores) {
      size_t i = 0;
      for (const Expansion& e : expansions)
        for (const auto& child : e.children) {
          ++asked;
          scores[i++] = child[0].predicate == predicate ? float(-int(child.size())) : -100.f;
        }
      EXPECT_EQ(i, scores.size());
    };
  };
  const auto proved = [&](int32_t predicate) {
    SearchOptions options{.strategy = Strategy::beam, .depth = 5, .width = 1};
    options.scores = prefer(predicate);
    Search search(*k, {1, 1, 1}, options);
    return search.next().has_value();
  };
  EXPECT_FALSE(proved(2));
  EXPECT_TRUE(proved(3));
  EXPECT_GT(asked, 4u);
}

TEST(Search, answers_come_when_asked_for) {
  const Program p = chain(40);
  const OwnedKnowledge k(p);
  Search search(*k, {2, 1, 42 + 1}, {.depth = 100});
  const auto first = search.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(to_text(p, first->answer), "reach(n0,n1)");
  const int64_t goals = search.report().goals;
  int answers = 1;
  while (search.next()) ++answers;
  EXPECT_EQ(answers, 31);  // goals of at most 31 atoms
  EXPECT_GT(search.report().goals, 10 * goals);
  EXPECT_GT(search.report().too_long, 0);
}

TEST(Search, refuses_limits_that_allow_nothing) {
  const Program p = chain(2);
  const OwnedKnowledge k(p);
  EXPECT_THROW(Search(*k, {1, 1, 1}, {.depth = 0}), Error);
  EXPECT_THROW(Search(*k, {1, 1, 1}, {.nodes = 0}), Error);
  EXPECT_THROW(Search(*k, {1, 1, 1}, {.seconds = 0}), Error);
  EXPECT_THROW(Search(*k, {1, 1, 1}, {.width = 0}), Error);
}

}  // namespace
}  // namespace maglev::datalog
