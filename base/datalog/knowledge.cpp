#include "base/datalog/knowledge.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/core/error.h"
#include "base/trace/span.h"

namespace maglev::datalog {
namespace {

constexpr int64_t kAlign = 64;

/// Where the parts of a program's knowledge lie. Repeated facts are counted: room for all.
Knowledge layout(const Program& p) {
  Knowledge k{};
  const int64_t facts = int64_t(p.facts.size()), rules = int64_t(p.rules.size());
  int64_t body = 0;
  for (const Rule& rule : p.rules) body += int64_t(rule.body.size());
  int64_t end = sizeof(Knowledge);
  const auto place = [&](int64_t& part, int64_t count, int64_t size) {
    part = (end + kAlign - 1) / kAlign * kAlign;
    end = part + count * size;
  };
  // at most half full, so that a probe ends soon
  const int64_t slots = int64_t(std::bit_ceil(uint64_t(2 * facts + 1)));
  k.row_mask_ = k.member_mask_ = slots - 1;
  place(k.fact_, facts, sizeof(Atom));
  place(k.by_second_, facts, 4);
  place(k.predicate_, p.predicates.size() + 1, 4);
  place(k.first_, slots, sizeof(Range));
  place(k.second_, slots, sizeof(Range));
  place(k.member_, slots, 4);
  place(k.rule_begin_, p.predicates.size() + 1, 4);
  place(k.head_, rules, sizeof(Atom));
  place(k.body_begin_, rules + 1, 4);
  place(k.body_, body, sizeof(Atom));
  place(k.origin_, rules, 4);
  k.bytes_ = (end + kAlign - 1) / kAlign * kAlign;
  return k;
}

void expect_rule(const Program& p, size_t i) {
  const Rule& rule = p.rules[i];
  const auto refuse = [&](const std::string& why) {
    throw Error("[rules] rule " + std::to_string(i + 1) + ", " + to_text(p, rule) + ": " + why);
  };
  if (int64_t(rule.body.size()) > kMaxBody)
    refuse("a body has at most " + std::to_string(kMaxBody) + " atoms, got " +
           std::to_string(rule.body.size()));
  if (int64_t(rule.variables.size()) > kMaxRuleVariables)
    refuse("a rule has at most " + std::to_string(kMaxRuleVariables) + " variables, got " +
           std::to_string(rule.variables.size()));
  for (int32_t t : {rule.head.first, rule.head.second}) {
    const bool used = t > 0 || std::any_of(rule.body.begin(), rule.body.end(), [&](const Atom& a) {
                        return a.first == t || a.second == t;
                      });
    if (!used)
      refuse("unsafe: variable " + rule.variables[size_t(-t - 1)] +
             " of the head is not in the body; name it there");
  }
}

template <class T>
T* part(Knowledge& k, int64_t offset) {
  return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(&k) + offset);
}

/// Facts, sorted, each once, and the order by their second terms.
void put_facts(const Program& p, Knowledge& k) {
  const auto by_first = [](const Atom& a, const Atom& b) {
    return std::tie(a.predicate, a.first, a.second) < std::tie(b.predicate, b.first, b.second);
  };
  std::vector<Atom> facts = p.facts;
  std::sort(facts.begin(), facts.end(), by_first);
  facts.erase(std::unique(facts.begin(), facts.end()), facts.end());
  k.facts = int32_t(facts.size());
  Atom* fact = part<Atom>(k, k.fact_);
  std::copy(facts.begin(), facts.end(), fact);
  int32_t* second_order = part<int32_t>(k, k.by_second_);
  std::iota(second_order, second_order + k.facts, 0);
  std::sort(second_order, second_order + k.facts, [&](int32_t i, int32_t j) {
    const Atom &a = fact[i], &b = fact[j];
    return std::tie(a.predicate, a.second, a.first) < std::tie(b.predicate, b.second, b.first);
  });
}

/// Where each predicate's facts and rules begin.
void put_begins(const Program& p, Knowledge& k) {
  int32_t* predicate = part<int32_t>(k, k.predicate_);
  int32_t* rule_begin = part<int32_t>(k, k.rule_begin_);
  const Atom* fact = part<Atom>(k, k.fact_);
  for (int32_t i = 0; i < k.facts; ++i) ++predicate[fact[i].predicate];
  for (const Rule& r : p.rules) ++rule_begin[r.head.predicate];
  for (int32_t i = 0; i < k.predicates; ++i)
    predicate[i + 1] += predicate[i], rule_begin[i + 1] += rule_begin[i];
}

/// Tables: rows of equal (predicate, term), and the facts themselves.
void put_tables(Knowledge& k) {
  const Atom* fact = part<Atom>(k, k.fact_);
  const int32_t* second_order = part<int32_t>(k, k.by_second_);
  const int32_t* rule_begin = part<int32_t>(k, k.rule_begin_);
  const auto index_rows = [&](Range* table, auto fact_at, auto term_of) {
    int32_t widest = 0;
    for (int32_t begin = 0, end; begin < k.facts; begin = end) {
      const Atom& a = fact_at(begin);
      for (end = begin + 1; end < k.facts && fact_at(end).predicate == a.predicate &&
                            term_of(fact_at(end)) == term_of(a);)
        ++end;
      uint64_t h = hash_of(a.predicate, term_of(a));
      while (table[h & uint64_t(k.row_mask_)].size()) ++h;
      table[h & uint64_t(k.row_mask_)] = {begin, end};
      const int32_t p = a.predicate;
      widest = std::max(widest, end - begin + rule_begin[p] - rule_begin[p - 1]);
    }
    return widest;
  };
  k.bound_fan_out =
      std::max(index_rows(
                   part<Range>(k, k.first_), [&](int32_t i) -> const Atom& { return fact[i]; },
                   [](const Atom& a) { return a.first; }),
               index_rows(
                   part<Range>(k, k.second_),
                   [&](int32_t i) -> const Atom& { return fact[second_order[i]]; },
                   [](const Atom& a) { return a.second; }));
  int32_t* member = part<int32_t>(k, k.member_);
  for (int32_t i = 0; i < k.facts; ++i) {
    uint64_t h = hash_of(fact[i]);
    while (member[h & uint64_t(k.member_mask_)]) ++h;
    member[h & uint64_t(k.member_mask_)] = i + 1;
  }
}

/// Rules by predicate, in their order.
void put_rules(const Program& p, Knowledge& k) {
  std::vector<int32_t> order(p.rules.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return p.rules[size_t(a)].head.predicate < p.rules[size_t(b)].head.predicate;
  });
  k.rules = int32_t(order.size());
  Atom *head = part<Atom>(k, k.head_), *body = part<Atom>(k, k.body_);
  int32_t *body_begin = part<int32_t>(k, k.body_begin_), *origin = part<int32_t>(k, k.origin_);
  for (int32_t i = 0; i < k.rules; ++i) {
    const Rule& rule = p.rules[size_t(order[size_t(i)])];
    head[i] = rule.head, origin[i] = order[size_t(i)];
    body_begin[i + 1] = body_begin[i] + int32_t(rule.body.size());
    std::copy(rule.body.begin(), rule.body.end(), body + body_begin[i]);
    k.longest_body = std::max(k.longest_body, int32_t(rule.body.size()));
  }
}

}  // namespace

int64_t knowledge_bytes(const Program& program) { return layout(program).bytes_; }

void make_knowledge(const Program& p, Knowledge& k) {
  for (size_t i = 0; i < p.rules.size(); ++i) expect_rule(p, i);
  k = layout(p);
  k.constants = p.constants.size(), k.predicates = p.predicates.size();
  put_facts(p, k);
  put_begins(p, k);
  put_tables(k);
  put_rules(p, k);
  for (int32_t i = 1; i <= k.predicates; ++i) {
    const int32_t rules = k.rules_of(i).size();
    k.fan_out = std::max(k.fan_out, k.of(i).size() + rules);
    k.bound_fan_out = std::max(k.bound_fan_out, rules);
  }
}

OwnedKnowledge::OwnedKnowledge(const Program& program) {
  const auto span = trace::stage("index");
  const size_t bytes = size_t(knowledge_bytes(program));
  void* memory = ::operator new(bytes, std::align_val_t(kAlign));
  std::memset(memory, 0, bytes);
  knowledge_ = static_cast<Knowledge*>(memory);
  try {
    make_knowledge(program, *knowledge_);
  } catch (...) {
    ::operator delete(memory, std::align_val_t(kAlign));
    throw;
  }
}

OwnedKnowledge::~OwnedKnowledge() { ::operator delete(knowledge_, std::align_val_t(kAlign)); }

}  // namespace maglev::datalog
