#include "base/datalog/rule_answers.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/core/philox.h"
#include "base/datalog/rules.h"
#include "tests/random_program.h"

namespace maglev::datalog {
namespace {

using Answers = std::set<std::pair<int32_t, int32_t>>;  // of constant and rule

/// By the definition: every constant for every variable of every rule.
Answers answers_by_definition(const Program& p, const AskedAtom& question) {
  Answers answers;
  for (size_t rule = 0; rule < p.rules.size(); ++rule) {
    const Rule& r = p.rules[rule];
    std::vector<int32_t> values(r.variables.size(), 1);
    const auto instance = [&](Atom a) {
      if (a.first < 0) a.first = values[size_t(-a.first - 1)];
      if (a.second < 0) a.second = values[size_t(-a.second - 1)];
      return a;
    };
    for (bool more = true; more;) {
      const Atom head = instance(r.head);
      const int32_t known = question.asks_first ? head.second : head.first;
      const int32_t answer = question.asks_first ? head.first : head.second;
      bool says = head.predicate == question.predicate && known == question.known;
      // a pair of a constant with itself is none of two variables
      says &=
          known != answer || r.head.first > 0 || r.head.second > 0 || r.head.first == r.head.second;
      for (const Atom& a : r.body)
        says = says && !(instance(a) == head) &&
               std::find(p.facts.begin(), p.facts.end(), instance(a)) != p.facts.end();
      if (says && r.confidence > 0) answers.insert({answer, int32_t(rule)});
      more = false;
      for (int32_t& v : values) {
        if (++v <= p.constants.size()) {
          more = true;
          break;
        }
        v = 1;
      }
    }
  }
  return answers;
}

TEST(RuleAnswers, are_those_of_every_grounding_each_once_and_the_surest_first) {
  int64_t found = 0;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    Program p = random_program(seed);
    Rng rng(seed, stream_id(Purpose::init, 1), 0);
    for (Rule& rule : p.rules) rule.confidence = 0.25 * rng.below(5);
    const OwnedKnowledge k(p);
    const RuleAnswers rules(p, *k);
    RuleAnswers::Scratch scratch;
    for (int32_t predicate = 1; predicate <= p.predicates.size(); ++predicate)
      for (int32_t known = 1; known <= p.constants.size(); ++known)
        for (bool asks_first : {false, true}) {
          const AskedAtom question{predicate, known, asks_first};
          const std::vector<RuleAnswer> answers = rules.of(question, scratch);
          Answers set;
          for (const RuleAnswer& a : answers) set.insert({a.constant, a.rule});
          ASSERT_EQ(set, answers_by_definition(p, question)) << seed << "\n" << rules_text(p);
          ASSERT_EQ(set.size(), answers.size()) << seed;
          const auto key = [&](const RuleAnswer& a) {
            return std::tuple(a.constant, -p.rules[size_t(a.rule)].confidence, a.rule);
          };
          for (size_t i = 1; i < answers.size(); ++i)
            ASSERT_LT(key(answers[i - 1]), key(answers[i])) << seed;
          found += int64_t(answers.size());
        }
  }
  EXPECT_GT(found, 20'000);
}

TEST(RuleAnswers, go_through_a_long_body_once_a_constant) {
  // 16 layers of 40 constants, each with edges to all of the next: 40^14 paths of 15 edges
  Program p;
  const int32_t edge = p.predicates.add("edge"), far = p.predicates.add("far");
  constexpr int32_t kLayers = 16, kWide = 40;
  for (int32_t i = 0; i < kLayers * kWide; ++i) p.constants.add("c" + std::to_string(i));
  for (int32_t layer = 0; layer + 1 < kLayers; ++layer)
    for (int32_t i = 1; i <= kWide; ++i)
      for (int32_t j = 1; j <= kWide; ++j)
        p.facts.push_back({edge, layer * kWide + i, (layer + 1) * kWide + j});
  Rule rule{.head = {far, -1, -2}, .variables = {"X", "Y"}};
  for (int32_t i = 0; i < 15; ++i) {
    rule.body.push_back({edge, i ? -2 - i : -1, i < 14 ? -3 - i : -2});
    if (i < 14) rule.variables.push_back("Z" + std::to_string(i));
  }
  p.rules.push_back(rule);
  const OwnedKnowledge k(p);
  const RuleAnswers rules(p, *k);
  RuleAnswers::Scratch scratch;
  EXPECT_EQ(rules.of({far, 1, false}, scratch).size(), size_t(kWide));
  EXPECT_EQ(rules.of({far, kLayers * kWide, true}, scratch).size(), size_t(kWide));
  EXPECT_TRUE(rules.of({edge, 1, false}, scratch).empty());
}

}  // namespace
}  // namespace maglev::datalog
