#include "base/datalog/knowledge.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/core/philox.h"
#include "tests/errors.h"
#include "tests/small_graph.h"

namespace maglev::datalog {
namespace {

using Triple = std::tuple<int32_t, int32_t, int32_t>;

Program scattered_facts(uint64_t seed, int32_t constants, int32_t predicates, int32_t facts) {
  Rng rng(seed, stream_id(Purpose::env, 0), 0);
  Program p;
  for (int32_t i = 0; i < constants; ++i) p.constants.add("c" + std::to_string(i));
  for (int32_t i = 0; i < predicates; ++i) p.predicates.add("p" + std::to_string(i));
  const auto draw = [&](int32_t n) { return 1 + int32_t(rng.below(uint32_t(n))); };
  for (int32_t i = 0; i < facts; ++i)
    p.facts.push_back({draw(predicates), draw(constants), draw(constants)});
  return p;
}

TEST(Knowledge, finds_the_facts_of_every_pattern) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Program p = scattered_facts(seed, 1 + int32_t(seed), 4, int32_t(10 * seed));
    const OwnedKnowledge k(p);
    std::set<Triple> facts;
    for (const Atom& f : p.facts) facts.insert({f.predicate, f.first, f.second});
    ASSERT_EQ(k->facts, std::ssize(facts)) << "repeated facts are one";
    const auto matches = [&](int32_t predicate, int32_t first, int32_t second) {
      return std::count_if(facts.begin(), facts.end(), [&](const Triple& f) {
        return std::get<0>(f) == predicate && (first == 0 || std::get<1>(f) == first) &&
               (second == 0 || std::get<2>(f) == second);
      });
    };
    for (int32_t predicate = 1; predicate <= 4; ++predicate) {
      ASSERT_EQ(k->of(predicate).size(), matches(predicate, 0, 0));
      for (int32_t c = 1; c <= k->constants; ++c) {
        ASSERT_EQ(k->of_first(predicate, c).size(), matches(predicate, c, 0));
        ASSERT_EQ(k->of_second(predicate, c).size(), matches(predicate, 0, c));
        const Range first = k->of_first(predicate, c), second = k->of_second(predicate, c);
        for (int32_t i = first.begin; i < first.end; ++i)
          ASSERT_EQ((Triple{predicate, c, k->fact(i).second}),
                    (Triple{k->fact(i).predicate, k->fact(i).first, k->fact(i).second}));
        for (int32_t i = second.begin; i < second.end; ++i) {
          const Atom& fact = k->fact(k->by_second(i));
          ASSERT_TRUE(fact.predicate == predicate && fact.second == c);
        }
        for (int32_t d = 1; d <= k->constants; ++d) {
          const Atom atom{predicate, c, d};
          const int32_t found = k->find(atom);
          ASSERT_EQ(found >= 0, facts.contains({predicate, c, d}));
          ASSERT_TRUE(found < 0 || k->fact(found) == atom);
        }
      }
    }
  }
}

// the original cut predicates of many facts off
TEST(Knowledge, has_every_fact_of_a_large_predicate) {
  const Program p = scattered_facts(1, 400, 1, 35000);
  const OwnedKnowledge k(p);
  std::set<Triple> facts;
  for (const Atom& f : p.facts) facts.insert({f.predicate, f.first, f.second});
  EXPECT_GT(facts.size(), 30000u);
  EXPECT_EQ(k->of(1).size(), std::ssize(facts));
  for (const Atom& f : p.facts) ASSERT_GE(k->find(f), 0);
}

TEST(Knowledge, says_how_many_children_a_goal_can_have) {
  SmallGraph graph(
      "p(a,b). p(a,c). p(a,d). p(b,d). q(a,a). "
      "p(X,Y) :- q(X,Y). p(X,Y) :- q(Y,X). r(X,Y) :- p(X,Y). q(X,Y) :- p(X,Z), p(Z,W), p(W,Y).");
  const OwnedKnowledge k(graph.program);
  EXPECT_EQ(k->fan_out, 4 + 2);
  EXPECT_EQ(k->bound_fan_out, 3 + 2);
  EXPECT_EQ(k->longest_body, 3);
}

TEST(Knowledge, is_bytes_that_may_lie_anywhere) {
  const Program p = scattered_facts(3, 50, 4, 500);
  const OwnedKnowledge k(p);
  ASSERT_EQ(knowledge_bytes(p), k->bytes_);
  std::vector<std::max_align_t> elsewhere(size_t(k->bytes_) / sizeof(std::max_align_t) + 1);
  std::memcpy(elsewhere.data(), &*k, size_t(k->bytes_));
  const auto& copy = *reinterpret_cast<const Knowledge*>(elsewhere.data());
  for (const Atom& f : p.facts) {
    ASSERT_EQ(copy.find(f), k->find(f));
    ASSERT_EQ(copy.of_second(f.predicate, f.second).begin,
              k->of_second(f.predicate, f.second).begin);
  }
}

TEST(Knowledge, of_nothing_has_nothing) {
  Program p;
  p.constants.add("a"), p.predicates.add("p");
  const OwnedKnowledge k(p);
  EXPECT_EQ(k->facts + k->rules + k->fan_out + k->bound_fan_out, 0);
  EXPECT_EQ(k->find({1, 1, 1}), -1);
  EXPECT_EQ(k->of_first(1, 1).size() + k->of_second(1, 1).size() + k->of(1).size(), 0);
}

TEST(Knowledge, keeps_rules_of_a_predicate_in_the_programs_order) {
  SmallGraph graph("p(X,Y) :- q(X,Y). q(X,Y) :- p(X,Y). p(X,X) :- p(X,Y). q(a,Y) :- q(Y,a).");
  const OwnedKnowledge k(graph.program);
  const auto rules = [&](const char* name) {
    const Range r = k->rules_of(graph.program.predicates.find(name));
    std::vector<int32_t> origins;
    for (int32_t i = r.begin; i < r.end; ++i) {
      origins.push_back(k->rule_of_program(i));
      const Rule& rule = graph.program.rules[size_t(origins.back())];
      EXPECT_EQ(k->head(i), rule.head);
      EXPECT_EQ(k->body(i).size(), std::ssize(rule.body));
      EXPECT_EQ(k->body_atom(k->body(i).begin), rule.body[0]);
    }
    return origins;
  };
  EXPECT_EQ(rules("p"), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(rules("q"), (std::vector<int32_t>{1, 3}));
}

TEST(Knowledge, refuses_rules_that_it_cannot_use) {
  const auto error = [](const std::string& text) {
    return error_of([&] { OwnedKnowledge{SmallGraph(text).program}; });
  };
  EXPECT_TRUE(contains(error("q(a,b). p(X,Y) :- q(X,Z). p(X,Y) :- q(X,Y)."),
                       "[rules] rule 1, p(X,Y) :- q(X,Z).: unsafe: variable Y of the head"));
  std::string long_rule = "p(X,Y) :- q(X,Y)", wide_rule = "p(X0,X0) :- q(X0,X0)";
  for (int i = 0; i < kMaxBody; ++i) long_rule += ", q(X,Y)";
  for (int i = 0; i < kMaxRuleVariables; i += 2)
    wide_rule += ", q(X" + std::to_string(i + 1) + ",X" + std::to_string(i + 2) + ")";
  EXPECT_TRUE(contains(error(long_rule + "."), "a body has at most 15 atoms, got 16"));
  EXPECT_TRUE(contains(error(wide_rule + "."), "a rule has at most 16 variables, got 17"));
}

}  // namespace
}  // namespace maglev::datalog
