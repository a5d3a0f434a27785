#include "base/datalog/mine.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/core/philox.h"
#include "base/datalog/family.h"
#include "base/datalog/pykeen.h"
#include "base/datalog/triples.h"
#include "tests/errors.h"

namespace maglev::datalog {
namespace {

/// A random graph; some facts twice, some from a constant to itself.
Program random_program(uint64_t seed, int32_t constants, int32_t predicates, int32_t facts) {
  Program program;
  Rng rng(seed, stream_id(Purpose::dataset, 8), 0);
  for (int32_t i = 0; i < constants; ++i) program.constants.add("c" + std::to_string(i));
  for (int32_t i = 0; i < predicates; ++i) program.predicates.add("p" + std::to_string(i));
  for (int32_t i = 0; i < facts; ++i)
    program.facts.push_back({1 + int32_t(rng.below(uint32_t(predicates))),
                             1 + int32_t(rng.below(uint32_t(constants))),
                             1 + int32_t(rng.below(uint32_t(constants)))});
  return program;
}

std::string line_of(const Program& program, const MinedRule& mined) {
  return to_text(program, mined.rule) + " " + std::to_string(mined.support) + " " +
         std::to_string(mined.body) + " " + std::to_string(mined.pca_body);
}

/// The same rules by their definition: every body and head, every X, Y and Z.
std::set<std::string> by_definition(const Program& program, const MineOptions& options) {
  std::set<std::tuple<int32_t, int32_t, int32_t>> facts;
  for (const Atom& a : program.facts) facts.insert({a.predicate, a.first, a.second});
  const int32_t constants = program.constants.size(), predicates = program.predicates.size();
  std::set<std::string> lines;
  const auto count = [&](const std::vector<Atom>& body) {
    for (int32_t h = 1; h <= predicates; ++h) {
      if (body.size() == 1 && body[0] == Atom{h, -1, -2}) continue;
      MinedRule mined;
      for (int32_t x = 1; x <= constants; ++x)
        for (int32_t y = 1; y <= constants; ++y) {
          if (x == y) continue;
          bool holds = false;
          for (int32_t z = 1; z <= constants && !holds; ++z) {
            const int32_t value[] = {0, x, y, z};
            holds = std::all_of(body.begin(), body.end(), [&](const Atom& a) {
              const std::tuple fact(a.predicate, value[-a.first], value[-a.second]);
              return fact != std::tuple(h, x, y) && facts.contains(fact);
            });
          }
          const auto of_x = facts.lower_bound({h, x, 0});
          const bool known =
              of_x != facts.end() && std::get<0>(*of_x) == h && std::get<1>(*of_x) == x;
          mined.body += holds, mined.pca_body += holds && known;
          mined.support += holds && facts.contains({h, x, y});
        }
      if (mined.support < options.support || mined.support == 0 ||
          double(mined.support) / double(mined.body) < options.confidence)
        continue;
      mined.rule = {{h, -1, -2}, body, 1, {"X", "Y", "Z"}};
      lines.insert(line_of(program, mined));
    }
  };
  const auto ways = [&](int32_t p, int32_t from, int32_t to) {
    return std::vector<Atom>{{p, from, to}, {p, to, from}};
  };
  for (int32_t p = 1; p <= predicates; ++p) {
    for (const Atom& atom : ways(p, -1, -2)) count({atom});
    for (int32_t q = 1; q <= predicates; ++q)
      for (const Atom& one : ways(p, -1, -3))
        for (const Atom& two : ways(q, -3, -2)) count({one, two});
  }
  return lines;
}

TEST(Mine, finds_what_the_definition_says) {
  size_t found = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Program program = random_program(seed, 7, 3, 8 + 3 * int32_t(seed));
    const MineOptions options{.support = int64_t(seed % 3), .confidence = 0.1 * double(seed % 5)};
    std::set<std::string> lines;
    for (const MinedRule& mined : mine_rules(program, options)) {
      EXPECT_TRUE(lines.insert(line_of(program, mined)).second) << "twice";
      EXPECT_EQ(mined.rule.confidence, double(mined.support) / double(mined.body));
    }
    EXPECT_EQ(lines, by_definition(program, options)) << "seed " << seed;
    found += lines.size();
  }
  EXPECT_GT(found, 200u);
}

// who is the same as nobody but himself bears out nothing: what is the same likes the same
TEST(Mine, a_triple_is_no_fact_for_itself) {
  Program program;
  const auto rules = [&](const char* facts) {
    program = {};
    program.facts = parse_triples({"facts", facts}, program).atoms;
    std::set<std::string> found;
    for (const MinedRule& mined : mine_rules(program, {.support = 1}))
      found.insert(line_of(program, mined));
    return found;
  };
  const std::string each = "same(a,a). same(b,b). same(e,e). likes(a,c). likes(b,d). likes(e,f).";
  EXPECT_TRUE(rules(each.c_str()).empty());
  // a has another who is the same, of whom nothing is known but this
  const auto found = rules((each + " same(a,b). likes(a,d).").c_str());
  EXPECT_TRUE(found.contains("likes(X,Y) :- same(X,Z), likes(Z,Y). 1 1 1"));
}

TEST(Mine, the_surest_of_each_head_are_those_of_all) {
  const Program program = random_program(3, 20, 4, 150);
  const auto all = mine_rules(program, {.support = 1, .confidence = 0});
  const auto few = mine_rules(program, {.support = 1, .confidence = 0, .per_head = 3});
  EXPECT_EQ(few.size(), 12u);
  for (const MinedRule& mined : few) {
    const auto surer = std::count_if(all.begin(), all.end(), [&](const MinedRule& other) {
      return other.rule.head == mined.rule.head && other.rule.confidence > mined.rule.confidence;
    });
    EXPECT_LT(surer, 3);
  }
}

// what holds in every world is found with few exceptions, though a share of the facts is held back
TEST(Mine, finds_the_rules_of_families) {
  const Dataset dataset = make_family({.families = 60});
  std::set<std::string> found;
  for (const MinedRule& mined : mine_rules(dataset.program, {.support = 30, .confidence = 0.3}))
    found.insert(to_text(dataset.program, mined.rule));
  for (const char* rule :
       {"uncle(X,Y) :- brother(X,Z), mother(Z,Y).", "father(X,Y) :- husband(X,Z), mother(Z,Y).",
        "husband(X,Y) :- wife(Y,X).", "niece(X,Y) :- daughter(X,Z), brother(Y,Z)."})
    EXPECT_TRUE(found.contains(rule)) << rule;
}

// counted apart from this, with dense matrices in numpy
TEST(Mine, finds_as_many_rules_of_pykeens_graphs_as_another_program) {
  std::string folder;
  const std::string error = error_of([&] { folder = pykeen_folder() + "/datasets/"; });
  if (!error.empty()) GTEST_SKIP() << error;
  const auto rules = [&](const char* name, const MineOptions& options) {
    return mine_rules(open_dataset(folder + name).program, options).size();
  };
  EXPECT_EQ(rules("umls", {.support = 10, .confidence = 0.3}), 3152u);
  EXPECT_EQ(rules("kinships", {.support = 20, .confidence = 0.3}), 877u);
  EXPECT_EQ(rules("nations", {.support = 10, .confidence = 0.5}), 34021u);
}

TEST(Mine, of_nothing_is_nothing) { EXPECT_TRUE(mine_rules(Program{}, {}).empty()); }

}  // namespace
}  // namespace maglev::datalog
