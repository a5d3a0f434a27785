#include "base/datalog/family.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/core/error.h"
#include "base/core/permute.h"
#include "base/core/philox.h"
#include "base/datalog/rules.h"

namespace maglev::datalog {
namespace {

constexpr uint32_t kMostChildren = 4;

struct Person {
  bool male = false;
  int32_t father = -1, mother = -1, spouse = -1;
};

// 0: the first generation
bool near_kin(const std::vector<Person>& people, const Person& a, const Person& b) {
  const auto grandparents = [&](const Person& p) {
    std::array<int32_t, 4> result{-1, -1, -1, -1};
    int i = 0;
    for (int32_t parent : {p.father, p.mother})
      if (parent >= 0)
        for (int32_t one : {people[size_t(parent)].father, people[size_t(parent)].mother})
          result[size_t(i++)] = one;
    return result;
  };
  if (a.father >= 0 && a.father == b.father) return true;
  for (int32_t one : grandparents(a))
    for (int32_t other : grandparents(b))
      if (one >= 0 && one == other) return true;
  return false;
}

std::vector<Person> make_people(const FamilyOptions& options) {
  std::vector<Person> people;
  Rng rng(options.seed, stream_id(Purpose::dataset, 0), 0);
  const auto marry = [&](int32_t husband, int32_t wife) {
    people[size_t(husband)].spouse = wife, people[size_t(wife)].spouse = husband;
  };
  for (int32_t i = 0; i < options.families; ++i) {
    people.push_back({.male = true}), people.push_back({.male = false});
    marry(2 * i, 2 * i + 1);
  }
  size_t begin = 0;
  for (int32_t g = 1; g < options.generations; ++g) {
    const size_t end = people.size();
    // children of every couple of the generation before
    std::vector<int32_t> men, women;
    for (size_t i = begin; i < end; ++i) {
      if (!people[i].male || people[i].spouse < 0) continue;
      const uint32_t children = 1 + rng.below(kMostChildren);
      for (uint32_t c = 0; c < children; ++c) {
        const bool male = rng.below(2) == 0;
        (male ? men : women).push_back(int32_t(people.size()));
        people.push_back({.male = male, .father = int32_t(i), .mother = people[i].spouse});
      }
    }
    // each man takes the next woman of a drawn order who is no near kin
    const auto shuffle = [&](std::vector<int32_t>& list) {
      for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[rng.below(uint32_t(i))]);
    };
    shuffle(men), shuffle(women);
    for (int32_t man : men)
      for (int32_t& woman : women) {
        if (woman < 0 || near_kin(people, people[size_t(man)], people[size_t(woman)])) continue;
        marry(man, woman);
        woman = -1;
        break;
      }
    begin = end;
  }
  return people;
}

/// All relations of a world, by definition.
std::vector<Atom> relations_of(const std::vector<Person>& people, Program& program) {
  std::vector<Atom> atoms;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < people.size(); ++i) {
    char name[24];
    std::snprintf(name, sizeof name, "p%05zu", i);
    ids.push_back(program.constants.add(name));
  }
  const auto say = [&](const char* relation, size_t a, size_t b) {
    atoms.push_back({program.predicates.add(relation), ids[a], ids[b]});
  };
  std::vector<std::vector<int32_t>> children(people.size());
  for (size_t i = 0; i < people.size(); ++i)
    if (people[i].father >= 0) {
      children[size_t(people[i].father)].push_back(int32_t(i));
      children[size_t(people[i].mother)].push_back(int32_t(i));
    }
  const auto siblings = [&](size_t i) {
    std::vector<int32_t> result;
    if (people[i].father >= 0) result = children[size_t(people[i].father)];
    std::erase(result, int32_t(i));
    return result;
  };
  for (size_t i = 0; i < people.size(); ++i) {
    const Person& p = people[i];
    if (p.spouse >= 0) say(p.male ? "husband" : "wife", i, size_t(p.spouse));
    for (int32_t child : children[i]) say(p.male ? "father" : "mother", i, size_t(child));
    for (int32_t parent : {p.father, p.mother}) {
      if (parent < 0) continue;
      say(p.male ? "son" : "daughter", i, size_t(parent));
      for (int32_t other : siblings(size_t(parent)))
        say(p.male ? "nephew" : "niece", i, size_t(other));
    }
    for (int32_t other : siblings(i)) {
      say(p.male ? "brother" : "sister", i, size_t(other));
      for (int32_t child : children[size_t(other)])
        say(p.male ? "uncle" : "aunt", i, size_t(child));
    }
  }
  return atoms;
}

// What holds in every world, said of men; of women it holds with the words of kOther in place of
// these. A second atom about X alone says that X is a man.
constexpr const char* kRules = R"(
husband(X,Y) :- wife(Y,X).
husband(X,Y) :- father(X,Z), mother(Y,Z).
father(X,Y) :- husband(X,Z), mother(Z,Y).
father(X,Y) :- husband(X,Z), son(Y,Z).
father(X,Y) :- husband(X,Z), daughter(Y,Z).
father(X,Y) :- father(X,Z), brother(Z,Y).
father(X,Y) :- father(X,Z), sister(Z,Y).
father(X,Y) :- father(X,Z), brother(Y,Z).
father(X,Y) :- father(X,Z), sister(Y,Z).
father(X,Y) :- son(Y,X), husband(X,Z).
father(X,Y) :- daughter(Y,X), husband(X,Z).
son(X,Y) :- son(X,Z), husband(Y,Z).
son(X,Y) :- son(X,Z), wife(Y,Z).
son(X,Y) :- brother(X,Z), son(Z,Y).
son(X,Y) :- brother(X,Z), daughter(Z,Y).
son(X,Y) :- brother(X,Z), father(Y,Z).
son(X,Y) :- brother(X,Z), mother(Y,Z).
son(X,Y) :- father(Y,X), son(X,Z).
son(X,Y) :- mother(Y,X), son(X,Z).
brother(X,Y) :- son(X,Z), daughter(Y,Z).
brother(X,Y) :- brother(X,Z), sister(Y,Z).
brother(X,Y) :- brother(Y,X), son(X,Z).
brother(X,Y) :- sister(Y,X), son(X,Z).
brother(X,Y) :- brother(Y,X), brother(X,Z).
brother(X,Y) :- sister(Y,X), brother(X,Z).
uncle(X,Y) :- brother(X,Z), father(Z,Y).
uncle(X,Y) :- brother(X,Z), mother(Z,Y).
uncle(X,Y) :- brother(X,Z), son(Y,Z).
uncle(X,Y) :- brother(X,Z), daughter(Y,Z).
uncle(X,Y) :- uncle(X,Z), brother(Z,Y).
uncle(X,Y) :- uncle(X,Z), sister(Z,Y).
uncle(X,Y) :- uncle(X,Z), brother(Y,Z).
uncle(X,Y) :- uncle(X,Z), sister(Y,Z).
uncle(X,Y) :- nephew(Y,X), brother(X,Z).
uncle(X,Y) :- niece(Y,X), brother(X,Z).
nephew(X,Y) :- son(X,Z), brother(Z,Y).
nephew(X,Y) :- son(X,Z), sister(Z,Y).
nephew(X,Y) :- son(X,Z), brother(Y,Z).
nephew(X,Y) :- son(X,Z), sister(Y,Z).
nephew(X,Y) :- brother(X,Z), nephew(Z,Y).
nephew(X,Y) :- brother(X,Z), niece(Z,Y).
nephew(X,Y) :- brother(X,Z), uncle(Y,Z).
nephew(X,Y) :- uncle(Y,X), son(X,Z).
nephew(X,Y) :- aunt(Y,X), son(X,Z).
)";
constexpr std::pair<const char*, const char*> kOther[] = {
    {"husband", "wife"},   {"father", "mother"}, {"son", "daughter"},
    {"brother", "sister"}, {"uncle", "aunt"},    {"nephew", "niece"},
};

void add_rules(Program& program) {
  parse_rules({"family", kRules}, program);
  // the other sex: predicates change places
  std::vector<int32_t> other(size_t(program.predicates.size()) + 1);
  for (const auto& [his, hers] : kOther) {
    const int32_t a = program.predicates.find(his), b = program.predicates.find(hers);
    other[size_t(a)] = b, other[size_t(b)] = a;
  }
  std::vector<Rule> rules = program.rules;
  for (Rule& rule : rules) {
    rule.head.predicate = other[size_t(rule.head.predicate)];
    for (Atom& atom : rule.body) atom.predicate = other[size_t(atom.predicate)];
    program.rules.push_back(rule);
  }
}

}  // namespace

Dataset make_family(const FamilyOptions& options) {
  if (options.families < 1 || options.generations < 1)
    throw Error("[family] expected families and generations, got " +
                std::to_string(options.families) + " and " + std::to_string(options.generations));
  Dataset dataset{.name = "family"};
  const std::vector<Atom> all = relations_of(make_people(options), dataset.program);

  // 70 %, 10 % and 20 %, in an order drawn
  const Permutation order(options.seed, 0, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Atom& atom = all[order(i)];
    const size_t tenth = 10 * i / all.size();
    (tenth < 7 ? dataset.train : tenth < 8 ? dataset.valid : dataset.test).push_back(atom);
  }
  dataset.program.facts = dataset.train;
  add_rules(dataset.program);
  dataset.sort_names();
  return dataset;
}

}  // namespace maglev::datalog
