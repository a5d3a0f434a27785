#pragma once
// A knowledge graph as people write it: names, facts and rules of Datalog over triples. Terms are
// constants and variables, there are no function symbols, every predicate has two arguments.
// Knowledge (knowledge.h) is the same as it is searched.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/core/hd.h"

namespace maglev::datalog {

/// predicate(first, second). Ids of predicates and of constants are spaces of their own, both from
/// 1; 0 is padding. What a term above the constants' ids or below 0 means, the one who has it says:
/// variables of a goal lie above the constants, variables of a rule are -1, -2, ..
struct Atom {
  int32_t predicate = 0, first = 0, second = 0;

  MAGLEV_HD bool operator==(const Atom& other) const {
    return predicate == other.predicate && first == other.first && second == other.second;
  }
};

/// Names and their ids, 1 to size().
class Names {
 public:
  /// The id of a name; a new one when it has none.
  int32_t add(std::string_view name);
  /// 0: there is none.
  int32_t find(std::string_view name) const;
  /// id in [1, size()].
  const std::string& of(int32_t id) const { return names_[size_t(id - 1)]; }
  int32_t size() const { return int32_t(names_.size()); }
  const std::vector<std::string>& all() const { return names_; }
  /// Puts the names in order; the new id of old id i is element i (element 0 is 0).
  std::vector<int32_t> sort();

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> ids_;
};

/// head :- body. Its variables are -1, -2, .. in the order in which head and body first name them.
/// Safe: every variable of the head is in the body.
struct Rule {
  Atom head;
  std::vector<Atom> body;
  double confidence = 1;               ///< in [0, 1]
  std::vector<std::string> variables;  ///< their names, -1 first
};

struct Program {
  Names constants, predicates;
  std::vector<Atom> facts;  ///< ground; in the order in which they were read, repeated ones too
  std::vector<Rule> rules;  ///< likewise

  /// Numbers constants and predicates in the order of their names, so that ids do not depend on
  /// which file was read first. `ground` are other lists of atoms of this program, e.g. queries.
  void sort_names(const std::vector<std::vector<Atom>*>& ground = {});
};

/// A name as readers take it back: in quotes where it has signs, or looks like a variable.
std::string quoted_name(std::string_view name);

/// "uncle(ann,bob)". A term above the constants is written _1, _2, ..; one below 0 by the name that
/// `variables` has for it.
std::string to_text(const Program& program, const Atom& atom,
                    const std::vector<std::string>& variables = {});
/// "uncle(X,Y) :- brother(X,Z), mother(Z,Y)."
std::string to_text(const Program& program, const Rule& rule);

}  // namespace maglev::datalog
