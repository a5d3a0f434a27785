#include "base/datalog/family.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev::datalog {
namespace {

using Named = std::tuple<std::string, std::string, std::string>;

/// A whole family world, all splits together.
struct World {
  explicit World(const Dataset& dataset) : program(&dataset.program) {
    for (const auto* split : {&dataset.train, &dataset.valid, &dataset.test})
      for (const Atom& atom : *split) {
        const Named said{program->predicates.of(atom.predicate), program->constants.of(atom.first),
                         program->constants.of(atom.second)};
        EXPECT_TRUE(all.insert(said).second) << "twice: " << to_text(*program, atom);
      }
  }
  bool has(const std::string& p, const std::string& a, const std::string& b) const {
    return all.contains({p, a, b});
  }
  const Program* program;
  std::set<Named> all;
};

// every relation anew, from who is whose father, mother and husband, and from who is a man
TEST(Family, relations_are_as_their_definitions_say) {
  const World world(make_family({.families = 12, .generations = 5, .seed = 3}));
  std::map<std::string, std::set<std::string>> parents, children;
  std::map<std::string, bool> male;
  for (const auto& [p, a, b] : world.all) {
    static const std::set<std::string> kMen{"husband", "father", "son",
                                            "brother", "uncle",  "nephew"};
    const bool man = kMen.contains(p);
    EXPECT_TRUE(!male.contains(a) || male[a] == man) << a << " is called both man and woman";
    male[a] = man;
    if (p == "father" || p == "mother") parents[b].insert(a), children[a].insert(b);
  }
  std::set<Named> expected;
  const auto say = [&](const char* his, const char* hers, const std::string& a,
                       const std::string& b) { expected.insert({male[a] ? his : hers, a, b}); };
  for (const auto& [child, both] : parents) {
    ASSERT_EQ(both.size(), 2u) << child;
    const std::string one = *both.begin(), other = *both.rbegin();
    EXPECT_TRUE(world.has("husband", one, other) || world.has("husband", other, one));
    for (const std::string& parent : both) {
      say("father", "mother", parent, child), say("son", "daughter", child, parent);
      for (const std::string& grandparent : parents[parent])
        for (const std::string& kin : children[grandparent])
          if (kin != parent) say("uncle", "aunt", kin, child), say("nephew", "niece", child, kin);
      for (const std::string& kin : children[parent])
        if (kin != child) say("brother", "sister", child, kin);
    }
  }
  for (const auto& [p, a, b] : world.all)
    if (p == "husband") expected.insert({p, a, b}), expected.insert({"wife", b, a});
  EXPECT_EQ(expected, world.all);
}

TEST(Family, nobody_marries_near_kin_or_twice) {
  const Dataset dataset = make_family({.families = 6, .generations = 7, .seed = 4});
  const World world(dataset);
  std::map<std::string, std::set<std::string>> parents, married;
  for (const auto& [p, a, b] : world.all) {
    if (p == "father" || p == "mother") parents[b].insert(a);
    if (p == "husband" || p == "wife") married[a].insert(b);
  }
  const auto grandparents = [&](const std::string& person) {
    std::set<std::string> result;
    for (const std::string& parent : parents[person])
      result.insert(parents[parent].begin(), parents[parent].end());
    return result;
  };
  const auto apart = [](const std::set<std::string>& a, const std::set<std::string>& b) {
    return std::none_of(a.begin(), a.end(),
                        [&](const std::string& one) { return b.contains(one); });
  };
  EXPECT_GT(married.size(), 20u);
  for (const auto& [person, others] : married) {
    ASSERT_EQ(others.size(), 1u) << person;
    EXPECT_TRUE(apart(parents[person], parents[*others.begin()])) << person;
    EXPECT_TRUE(apart(grandparents(person), grandparents(*others.begin()))) << person;
  }
}

// every instance of every body has its head in the world
TEST(Family, rules_hold_without_exception) {
  const Dataset dataset = make_family({.families = 20, .generations = 5, .seed = 5});
  std::map<int32_t, std::vector<Atom>> of;
  std::set<std::tuple<int32_t, int32_t, int32_t>> all;
  for (const auto* split : {&dataset.train, &dataset.valid, &dataset.test})
    for (const Atom& atom : *split) {
      of[atom.predicate].push_back(atom);
      all.insert({atom.predicate, atom.first, atom.second});
    }
  ASSERT_EQ(dataset.program.rules.size(), 88u);
  for (const Rule& rule : dataset.program.rules) {
    int64_t instances = 0, wrong = 0;
    const auto join = [&](auto&& self, size_t i, std::vector<int32_t> bound) -> void {
      if (i == rule.body.size()) {
        ++instances;
        wrong += !all.contains({rule.head.predicate, bound[size_t(-rule.head.first)],
                                bound[size_t(-rule.head.second)]});
        return;
      }
      for (const Atom& fact : of[rule.body[i].predicate]) {
        std::vector<int32_t> next = bound;
        int32_t& first = next[size_t(-rule.body[i].first)];
        if (first && first != fact.first) continue;
        first = fact.first;
        int32_t& second = next[size_t(-rule.body[i].second)];
        if (second && second != fact.second) continue;
        second = fact.second;
        self(self, i + 1, next);
      }
    };
    join(join, 0, std::vector<int32_t>(4, 0));
    EXPECT_GT(instances, 0) << to_text(dataset.program, rule);
    EXPECT_EQ(wrong, 0) << to_text(dataset.program, rule);
  }
}

TEST(Family, is_what_its_description_says) {
  const Dataset dataset = open_dataset("family");
  EXPECT_EQ(dataset.program.constants.size(), 2420);
  EXPECT_EQ(dataset.program.predicates.size(), 12);
  EXPECT_EQ(dataset.train.size(), 19715u);
  EXPECT_EQ(dataset.valid.size(), 2817u);
  EXPECT_EQ(dataset.test.size(), 5632u);
  EXPECT_EQ(dataset.program.facts, dataset.train);
  EXPECT_TRUE(std::is_sorted(dataset.program.constants.all().begin(),
                             dataset.program.constants.all().end()));
}

TEST(Family, a_seed_is_a_world) {
  const FamilyOptions options{.families = 9, .seed = 7};
  EXPECT_EQ(make_family(options).train, make_family(options).train);
  EXPECT_NE(make_family(options).train, make_family({.families = 9, .seed = 8}).train);
  EXPECT_TRUE(contains(error_of([] { make_family({.families = 0}); }), "[family] expected"));
}

}  // namespace
}  // namespace maglev::datalog
