#include "base/datalog/stats.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/core/philox.h"

namespace maglev::datalog {
namespace {

constexpr int kDraws = 64;  // of a false query, until one is false

/// A rule's body against facts, atom by atom. terms[v]: what variable -v is bound to, 0: nothing yet.
class BodyProof {
 public:
  BodyProof(const Knowledge& knowledge, const Atom& query) : k_(knowledge), query_(query) {}

  bool proves(int32_t rule) {
    terms_ = {};
    const Atom& head = k_.head(rule);
    if (!bind(head.first, query_.first) || !bind(head.second, query_.second)) return false;
    return holds(k_.body(rule));
  }

 private:
  int32_t value(int32_t term) const { return term > 0 ? term : terms_[size_t(-term)]; }
  bool bind(int32_t term, int32_t constant) {
    if (value(term)) return value(term) == constant;
    terms_[size_t(-term)] = constant;
    return true;
  }
  bool holds(Range body) {
    if (body.size() == 0) return true;
    const Atom& atom = k_.body_atom(body.begin);
    const Atom goal{atom.predicate, value(atom.first), value(atom.second)};
    const Range rest{body.begin + 1, body.end};
    if (goal.first && goal.second) return !(goal == query_) && k_.find(goal) >= 0 && holds(rest);
    const bool backwards = !goal.first && goal.second;
    const Range places = goal.first    ? k_.of_first(goal.predicate, goal.first)
                         : goal.second ? k_.of_second(goal.predicate, goal.second)
                                       : k_.of(goal.predicate);
    for (int32_t i = places.begin; i < places.end; ++i) {
      const Atom& fact = k_.fact(backwards ? k_.by_second(i) : i);
      const auto saved = terms_;
      if (!(fact == query_) && bind(atom.first, fact.first) && bind(atom.second, fact.second) &&
          holds(rest))
        return true;
      terms_ = saved;
    }
    return false;
  }

  const Knowledge& k_;
  const Atom query_;
  std::array<int32_t, kMaxRuleVariables + 1> terms_{};
};

bool ordered(const Atom& a, const Atom& b) {
  return std::tie(a.predicate, a.first, a.second) < std::tie(b.predicate, b.first, b.second);
}

}  // namespace

bool one_rule_proves(const Knowledge& knowledge, const Atom& query) {
  BodyProof proof(knowledge, query);
  const Range rules = knowledge.rules_of(query.predicate);
  for (int32_t rule = rules.begin; rule < rules.end; ++rule)
    if (proof.proves(rule)) return true;
  return false;
}

SplitStats stats_of(const Dataset& dataset, const Knowledge& knowledge,
                    const std::vector<Atom>& queries) {
  SplitStats stats{.queries = int64_t(queries.size())};
  std::vector<Atom> known = dataset.program.facts;
  for (const auto* split : {&dataset.train, &dataset.valid, &dataset.test})
    known.insert(known.end(), split->begin(), split->end());
  std::sort(known.begin(), known.end(), ordered);
  std::vector<uint8_t> has_constant(size_t(knowledge.constants) + 1);
  for (int32_t i = 0; i < knowledge.facts; ++i)
    has_constant[size_t(knowledge.fact(i).first)] = has_constant[size_t(knowledge.fact(i).second)] =
        1;

  for (size_t i = 0; i < queries.size(); ++i) {
    const Atom& query = queries[i];
    stats.by_one_rule += one_rule_proves(knowledge, query);
    stats.facts += knowledge.find(query) >= 0;
    stats.unknown += !has_constant[size_t(query.first)] || !has_constant[size_t(query.second)] ||
                     (knowledge.of(query.predicate).size() == 0 &&
                      knowledge.rules_of(query.predicate).size() == 0);
    static const std::vector<int32_t> kAny;
    const std::vector<int32_t>& domain =
        dataset.domains.empty() ? kAny : dataset.domains[size_t(query.predicate - 1)];
    const uint32_t choices = uint32_t(domain.empty() ? size_t(knowledge.constants) : domain.size());
    Rng rng(0, stream_id(Purpose::dataset, 2), uint64_t(i) << 16);
    for (int draw = 0; draw < kDraws; ++draw) {
      const uint32_t choice = rng.below(choices);
      const Atom wrong{query.predicate, query.first,
                       domain.empty() ? int32_t(choice) + 1 : domain[choice]};
      if (std::binary_search(known.begin(), known.end(), wrong, ordered)) continue;
      ++stats.false_queries;
      stats.false_by_one_rule += one_rule_proves(knowledge, wrong);
      break;
    }
  }
  return stats;
}

}  // namespace maglev::datalog
