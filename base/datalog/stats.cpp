#include "base/datalog/stats.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/core/philox.h"

namespace maglev::datalog {
namespace {

constexpr int kDraws = 64;  // of a false query, until one is false

/// A rule's body against facts, atom by atom. terms[v]: what variable -v is bound to, 0: nothing
/// yet.
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

/// What the splits of a dataset are counted with.
class SplitCounter {
 public:
  SplitCounter(const Dataset& dataset, const Knowledge& knowledge)
      : dataset_(dataset),
        k_(knowledge),
        known_(dataset.program.facts),
        has_fact_(size_t(knowledge.constants) + 1) {
    for (const auto* split : {&dataset.train, &dataset.valid, &dataset.test})
      known_.insert(known_.end(), split->begin(), split->end());
    std::sort(known_.begin(), known_.end(), ordered);
    for (int32_t i = 0; i < k_.facts; ++i)
      has_fact_[size_t(k_.fact(i).first)] = has_fact_[size_t(k_.fact(i).second)] = 1;
  }

  SplitStats count(const std::vector<Atom>& queries) const {
    SplitStats stats{.queries = int64_t(queries.size())};
    for (size_t i = 0; i < queries.size(); ++i) {
      const Atom& query = queries[i];
      stats.by_one_rule += one_rule_proves(k_, query);
      stats.facts += k_.find(query) >= 0;
      stats.unknown +=
          !has_fact_[size_t(query.first)] || !has_fact_[size_t(query.second)] ||
          (k_.of(query.predicate).size() == 0 && k_.rules_of(query.predicate).size() == 0);
      const Atom wrong = false_query(query, i);
      if (!wrong.predicate) continue;
      ++stats.false_queries;
      stats.false_by_one_rule += one_rule_proves(k_, wrong);
    }
    return stats;
  }

 private:
  /// The query with another second constant, in no split; of predicate 0 where none was drawn.
  Atom false_query(const Atom& query, size_t number) const {
    static const std::vector<int32_t> kAny;
    const std::vector<int32_t>& domain =
        dataset_.domains.empty() ? kAny : dataset_.domains[size_t(query.predicate - 1)];
    const uint32_t choices = uint32_t(domain.empty() ? size_t(k_.constants) : domain.size());
    Rng rng(0, stream_id(Purpose::dataset, 2), uint64_t(number) << 16);
    for (int draw = 0; draw < kDraws; ++draw) {
      const uint32_t choice = rng.below(choices);
      const Atom wrong{query.predicate, query.first,
                       domain.empty() ? int32_t(choice) + 1 : domain[choice]};
      if (!std::binary_search(known_.begin(), known_.end(), wrong, ordered)) return wrong;
    }
    return {};
  }

  const Dataset& dataset_;
  const Knowledge& k_;
  std::vector<Atom> known_;        // all that is said to be true
  std::vector<uint8_t> has_fact_;  // by constant
};

}  // namespace

bool one_rule_proves(const Knowledge& knowledge, const Atom& query) {
  BodyProof proof(knowledge, query);
  const Range rules = knowledge.rules_of(query.predicate);
  for (int32_t rule = rules.begin; rule < rules.end; ++rule)
    if (proof.proves(rule)) return true;
  return false;
}

DatasetStats stats_of(const Dataset& dataset, const Knowledge& knowledge) {
  const SplitCounter counter(dataset, knowledge);
  return {counter.count(dataset.train), counter.count(dataset.valid), counter.count(dataset.test)};
}

}  // namespace maglev::datalog
