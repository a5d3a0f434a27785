#pragma once
// Rules mined from facts: every closed path of one or two atoms from X to Y, each atom either way
// round, as a body for every predicate (as AMIE with a body of two atoms, Lajus, Galarraga,
// Suchanek, ESWC 2020). Bodies are products of Boolean matrices, a row at a time.

#include <cstdint>
#include <vector>

#include "base/datalog/program.h"

namespace maglev::datalog {

/// Pairs (X, Y) are of two constants: none with itself.
struct MineOptions {
  int64_t support = 10;     ///< pairs of the body that the head has too, at least; >= 1
  double confidence = 0.3;  ///< standard confidence, at least; in [0, 1]
  int64_t per_head = 0;     ///< the surest of each head predicate; 0: all
};

/// A pair is counted where facts other than the head's own make the body true of it: no triple
/// stands in a body that proves it.
struct MinedRule {
  Rule rule;             ///< its confidence is the standard one
  int64_t support = 0;   ///< pairs that body and head have
  int64_t body = 0;      ///< pairs that the body has: standard confidence = support / body
  int64_t pca_body = 0;  ///< those of them whose X is the first argument of some fact of the head

  /// Of the partial completeness assumption (Galarraga et al., WWW 2013): what is not known of an X
  /// of which nothing is known does not count against the rule.
  double pca_confidence() const { return double(support) / double(pca_body); }
};

/// From the program's facts, each counted once. By head predicate, surest first, then by support,
/// then by predicates of the body. p(X,Y) :- p(X,Y) is none.
std::vector<MinedRule> mine_rules(const Program& program, const MineOptions& options);

}  // namespace maglev::datalog
