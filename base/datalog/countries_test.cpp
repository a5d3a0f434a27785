#include "base/datalog/countries.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/datalog/knowledge.h"
#include "base/datalog/resolve.h"
#include "tests/errors.h"

namespace maglev::datalog {
namespace {

/// Steps of the shortest proof, by trying every goal of at most that many steps; -1: none.
int32_t steps_of(const Knowledge& k, const Atom& query, int32_t most) {
  std::vector<std::vector<Atom>> goals{{query}};
  for (int32_t step = 1; step <= most; ++step) {
    std::vector<std::vector<Atom>> next;
    bool proved = false;
    for (std::vector<Atom>& goal : goals) {
      Child child;
      const int32_t free = rename_variables(goal.data(), int32_t(goal.size()), k.constants);
      resolve(k, {.max_atoms = 8, .excluded = query}, goal.data(), int32_t(goal.size()), free,
              child, [&](const Child& c) {
                proved = proved || c.size == 0;
                next.push_back({c.atoms, c.atoms + c.size});
                return true;
              });
    }
    if (proved) return step;
    goals = std::move(next);
  }
  return -1;
}

TEST(Countries, have_the_size_of_the_benchmark) {
  const size_t facts[] = {1120, 1072, 978};
  for (int32_t stage = 1; stage <= 3; ++stage) {
    const Dataset dataset = open_dataset("countries_s" + std::to_string(stage));
    EXPECT_EQ(dataset.program.constants.size(), 271);
    EXPECT_EQ(dataset.program.predicates.size(), 4);
    EXPECT_EQ(dataset.program.facts.size(), facts[stage - 1]);
    EXPECT_EQ(dataset.valid.size(), 24u);
    EXPECT_EQ(dataset.test.size(), 24u);
    EXPECT_EQ(dataset.program.rules.size(), stage == 1 ? 1u : 2u);
  }
}

TEST(Countries, every_query_has_the_depth_it_says) {
  for (uint64_t seed : {1, 2, 3})
    for (int32_t stage = 1; stage <= 3; ++stage) {
      const Dataset dataset = make_countries({.stage = stage, .seed = seed});
      const OwnedKnowledge knowledge(dataset.program);
      for (size_t i = 0; i < dataset.test.size(); ++i) {
        EXPECT_EQ(steps_of(*knowledge, dataset.test[i], 4), dataset.test_depth[i])
            << "stage " << stage << " seed " << seed << " "
            << to_text(dataset.program, dataset.test[i]);
        EXPECT_EQ(steps_of(*knowledge, dataset.valid[i], 4), dataset.valid_depth[i]);
      }
    }
}

// each stage has the facts of the one before, less what it takes away
TEST(Countries, stages_take_away_what_they_say) {
  const auto texts = [](const Dataset& dataset, const std::vector<Atom>& atoms) {
    std::set<std::string> result;
    for (const Atom& atom : atoms) result.insert(to_text(dataset.program, atom));
    return result;
  };
  const Dataset one = make_countries({.stage = 1}), two = make_countries({.stage = 2}),
                three = make_countries({.stage = 3});
  std::set<std::string> held, beside;
  for (const auto* split : {&one.valid, &one.test})
    for (const Atom& atom : *split) held.insert(one.program.constants.of(atom.first));
  ASSERT_EQ(held.size(), 48u);
  const auto facts1 = texts(one, one.program.facts), facts2 = texts(two, two.program.facts),
             facts3 = texts(three, three.program.facts);
  for (const Atom& atom : one.program.facts)
    if (one.program.predicates.of(atom.predicate) == "neighborOf") {
      const std::string a = one.program.constants.of(atom.first),
                        b = one.program.constants.of(atom.second);
      EXPECT_TRUE(facts1.contains("neighborOf(" + b + "," + a + ")"));
      EXPECT_NE(a, b);
      if (held.contains(b)) beside.insert(a);
    }
  for (const Atom& atom : one.program.facts) {
    const std::string text = to_text(one.program, atom),
                      p = one.program.predicates.of(atom.predicate),
                      a = one.program.constants.of(atom.first);
    EXPECT_FALSE(p == "locatedInCR" && held.contains(a)) << text;
    const bool in_two = !(p == "locatedInCS" && held.contains(a));
    EXPECT_EQ(facts2.contains(text), in_two) << text;
    EXPECT_EQ(facts3.contains(text), in_two && !(p == "locatedInCR" && beside.contains(a))) << text;
  }
  EXPECT_EQ(texts(one, one.test), texts(three, three.test));
}

TEST(Countries, domains_are_what_second_arguments_are) {
  const Dataset dataset = make_countries({.stage = 3});
  ASSERT_EQ(dataset.domains.size(), 4u);
  std::map<std::string, size_t> sizes;
  for (int32_t p = 1; p <= 4; ++p) {
    const auto& domain = dataset.domains[size_t(p - 1)];
    EXPECT_TRUE(std::is_sorted(domain.begin(), domain.end()));
    sizes[dataset.program.predicates.of(p)] = domain.size();
    for (const Atom& atom : dataset.program.facts)
      EXPECT_TRUE(atom.predicate != p ||
                  std::binary_search(domain.begin(), domain.end(), atom.second));
  }
  EXPECT_EQ(sizes,
            (std::map<std::string, size_t>{
                {"locatedInCR", 5}, {"locatedInCS", 22}, {"locatedInSR", 5}, {"neighborOf", 244}}));
}

TEST(Countries, another_stage_is_refused) {
  EXPECT_EQ(error_of([] { make_countries({.stage = 4}); }),
            "[countries] expected stage 1, 2 or 3, got 4");
}

}  // namespace
}  // namespace maglev::datalog
