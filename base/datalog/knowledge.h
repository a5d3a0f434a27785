#pragma once
// Facts and rules as they are searched: a block of bytes without pointers, which environments share
// as their assets and a device gets as it is. Facts lie sorted by (predicate, first, second), with
// a second order by (predicate, second, first); open-addressing tables lead from (predicate, first)
// and (predicate, second) to the facts that have them, and from an atom to whether it is a fact:
// one to two probes each, whatever the graph's size.

#include <cstddef>
#include <cstdint>

#include "base/datalog/program.h"

namespace maglev::datalog {

constexpr int32_t kMaxRuleVariables = 16;  ///< of one rule
constexpr int32_t kMaxBody = 15;           ///< atoms of one rule

/// A mixer whose sums do not collide as those of a product do (splitmix64's finaliser, Steele, Lea,
/// Flood 2014).
MAGLEV_HD uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
MAGLEV_HD uint64_t hash_of(int32_t predicate, int32_t term) {
  return mix(uint64_t(uint32_t(predicate)) << 32 | uint32_t(term));
}
MAGLEV_HD uint64_t hash_of(const Atom& a) {
  return mix(hash_of(a.predicate, a.first) + uint32_t(a.second));
}

/// Places [begin, end) of a list.
struct Range {
  int32_t begin = 0, end = 0;
  MAGLEV_HD int32_t size() const { return end - begin; }
};

struct Knowledge {
  int32_t constants, predicates;  ///< ids are 1 to these; variables of goals begin at constants + 1
  int32_t facts, rules;
  int32_t longest_body;  ///< atoms
  /// The most children that facts and rules together give a goal, whatever it binds; the most of
  /// a goal with a constant.
  int32_t fan_out, bound_fan_out;

  /// Fact i of [0, facts), sorted.
  MAGLEV_HD const Atom& fact(int32_t i) const { return part<Atom>(fact_)[i]; }
  /// The place in the sorted facts of fact i in the order by (predicate, second, first).
  MAGLEV_HD int32_t by_second(int32_t i) const { return part<int32_t>(by_second_)[i]; }
  /// Facts of a predicate.
  MAGLEV_HD Range of(int32_t predicate) const {
    const int32_t* begin = part<int32_t>(predicate_);
    return {begin[predicate - 1], begin[predicate]};
  }
  /// Facts predicate(first, _).
  MAGLEV_HD Range of_first(int32_t predicate, int32_t first) const {
    for (uint64_t h = hash_of(predicate, first);; ++h) {
      const Range r = part<Range>(first_)[h & uint64_t(row_mask_)];
      if (r.size() == 0) return r;
      const Atom& a = fact(r.begin);
      if (a.predicate == predicate && a.first == first) return r;
    }
  }
  /// Facts predicate(_, second), as places for by_second.
  MAGLEV_HD Range of_second(int32_t predicate, int32_t second) const {
    for (uint64_t h = hash_of(predicate, second);; ++h) {
      const Range r = part<Range>(second_)[h & uint64_t(row_mask_)];
      if (r.size() == 0) return r;
      const Atom& a = fact(by_second(r.begin));
      if (a.predicate == predicate && a.second == second) return r;
    }
  }
  /// The place of a ground atom in the sorted facts; -1: it is none.
  MAGLEV_HD int32_t find(const Atom& atom) const {
    for (uint64_t h = hash_of(atom);; ++h) {
      const int32_t i = part<int32_t>(member_)[h & uint64_t(member_mask_)] - 1;
      if (i < 0 || fact(i) == atom) return i;
    }
  }

  /// Rules whose head has a predicate, in the program's order: places of [0, rules).
  MAGLEV_HD Range rules_of(int32_t predicate) const {
    const int32_t* begin = part<int32_t>(rule_begin_);
    return {begin[predicate - 1], begin[predicate]};
  }
  MAGLEV_HD const Atom& head(int32_t rule) const { return part<Atom>(head_)[rule]; }
  /// Places of a rule's body, for body_atom.
  MAGLEV_HD Range body(int32_t rule) const {
    const int32_t* begin = part<int32_t>(body_begin_);
    return {begin[rule], begin[rule + 1]};
  }
  MAGLEV_HD const Atom& body_atom(int32_t i) const { return part<Atom>(body_)[i]; }
  /// Which rule of the program a rule is.
  MAGLEV_HD int32_t rule_of_program(int32_t rule) const { return part<int32_t>(origin_)[rule]; }

  // where each part begins, in bytes from this struct
  int64_t fact_, by_second_, predicate_, first_, second_, member_, rule_begin_, head_, body_begin_,
      body_, origin_;
  int64_t row_mask_, member_mask_;  ///< sizes of the tables, powers of two, less one
  int64_t bytes_;                   ///< all of it

 private:
  template <class T>
  MAGLEV_HD const T* part(int64_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(this) + offset);
  }
};

/// Bytes that the knowledge of a program takes.
int64_t knowledge_bytes(const Program& program);
/// Writes it to `to`, knowledge_bytes of zeroed memory aligned to 64. Repeated facts are one.
/// Throws Error for a rule that is unsafe, too long or of too many variables.
void make_knowledge(const Program& program, Knowledge& to);

/// The same on the heap.
class OwnedKnowledge {
 public:
  explicit OwnedKnowledge(const Program& program);
  ~OwnedKnowledge();
  OwnedKnowledge(const OwnedKnowledge&) = delete;
  OwnedKnowledge& operator=(const OwnedKnowledge&) = delete;
  const Knowledge& operator*() const { return *knowledge_; }
  const Knowledge* operator->() const { return knowledge_; }

 private:
  Knowledge* knowledge_;
};

}  // namespace maglev::datalog
