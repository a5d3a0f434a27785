// Stand-in until the readers and generators are here.
#include "base/datalog/dataset.h"

#include "base/core/error.h"
#include "base/core/philox.h"

namespace maglev::datalog {
namespace {

struct Person {
  bool male;
  int32_t father = -1, mother = -1, spouse = -1;
};

struct Kinship {
  const char *male, *female;
};
constexpr Kinship kParent{"father", "mother"}, kChild{"son", "daughter"},
    kSibling{"brother", "sister"}, kSpouse{"husband", "wife"}, kUncle{"uncle", "aunt"},
    kNephew{"nephew", "niece"};

}  // namespace

Dataset open_dataset(const std::string& name_or_folder) {
  if (name_or_folder != "family") throw Error("[data] there is no data set " + name_or_folder);
  Dataset data{.name = "family"};
  Program& p = data.program;
  Rng rng(7, stream_id(Purpose::init, 0), 0);

  // people
  std::vector<Person> people;
  for (int family = 0; family < 70; ++family) {
    std::vector<std::pair<int32_t, int32_t>> couples;
    const auto born = [&](bool male, int32_t father, int32_t mother) {
      people.push_back({male, father, mother});
      return int32_t(people.size()) - 1;
    };
    couples.push_back({born(true, -1, -1), born(false, -1, -1)});
    for (int generation = 0; generation < 5; ++generation) {
      std::vector<std::pair<int32_t, int32_t>> next;
      for (auto [man, woman] : couples) {
        people[size_t(man)].spouse = woman, people[size_t(woman)].spouse = man;
        const uint32_t children = 1 + rng.below(4);
        for (uint32_t c = 0; c < children; ++c) {
          const bool male = rng.below(2);
          const int32_t child = born(male, man, woman);
          if (rng.below(10) < 7) {
            const int32_t spouse = born(!male, -1, -1);
            next.push_back(male ? std::pair{child, spouse} : std::pair{spouse, child});
          }
        }
      }
      couples = next;
    }
  }
  for (size_t i = 0; i < people.size(); ++i) p.constants.add("p" + std::to_string(10000 + i));

  // their kinships
  std::vector<Atom> all;
  const auto say = [&](const Kinship& k, int32_t a, int32_t b) {
    const char* name = people[size_t(a)].male ? k.male : k.female;
    all.push_back({p.predicates.add(name), a + 1, b + 1});
  };
  const auto siblings = [&](int32_t a, int32_t b) {
    return a != b && people[size_t(a)].father >= 0 &&
           people[size_t(a)].father == people[size_t(b)].father;
  };
  const int32_t count = int32_t(people.size());
  for (int32_t a = 0; a < count; ++a) {
    const Person& x = people[size_t(a)];
    if (x.spouse >= 0) say(kSpouse, a, x.spouse);
    for (int32_t parent : {x.father, x.mother}) {
      if (parent < 0) continue;
      say(kParent, parent, a), say(kChild, a, parent);
      for (int32_t b = 0; b < count; ++b)
        if (siblings(parent, b)) say(kUncle, b, a), say(kNephew, a, b);
    }
    for (int32_t b = 0; b < count; ++b)
      if (siblings(a, b)) say(kSibling, a, b);
  }
  for (const Atom& a : all) {
    const uint32_t part = rng.below(10);
    (part < 7 ? data.train : part < 8 ? data.valid : data.test).push_back(a);
  }
  p.facts = data.train;

  // rules: the first person's sex is that of the first atom
  const auto rule = [&](const Kinship& head, const std::vector<Kinship>& body) {
    for (size_t sexes = 0; sexes < size_t(1) << body.size(); ++sexes) {
      const auto named = [&](const Kinship& k, size_t i) {
        return p.predicates.add(sexes >> i & 1 ? k.female : k.male);
      };
      const int32_t n = int32_t(body.size());
      Rule r{.head = {named(head, 0), -1, -2}, .variables = {"X", "Y"}};
      for (int32_t i = 0; i < n; ++i) {
        r.body.push_back(
            {named(body[size_t(i)], size_t(i)), i ? -2 - i : -1, i + 1 < n ? -3 - i : -2});
        if (i) r.variables.push_back("Z" + std::to_string(i));
      }
      p.rules.push_back(r);
    }
  };
  rule(kParent, {kSpouse, kParent}), rule(kParent, {kParent, kSibling});
  rule(kChild, {kChild, kSpouse}), rule(kChild, {kSibling, kChild});
  rule(kSibling, {kSibling, kSibling}), rule(kSibling, {kChild, kParent});
  rule(kUncle, {kSibling, kParent}), rule(kUncle, {kUncle, kSibling});
  rule(kNephew, {kChild, kSibling}), rule(kNephew, {kSibling, kNephew});
  rule(kUncle, {kSibling, kParent, kSibling}), rule(kNephew, {kSibling, kChild, kSibling});
  rule(kSpouse, {kParent, kChild}), rule(kUncle, {kChild, kParent, kParent});
  rule(kNephew, {kChild, kSibling, kSibling}), rule(kSibling, {kUncle, kNephew, kSibling});
  rule(kSibling, {kNephew, kUncle});

  p.sort_names({&data.train, &data.valid, &data.test});
  return data;
}

}  // namespace maglev::datalog
