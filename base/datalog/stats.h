#pragma once
// What a dataset is like, in numbers: how large, how wide its choices, how much of it can be
// proved.

#include <cstdint>

#include "base/datalog/dataset.h"
#include "base/datalog/knowledge.h"

namespace maglev::datalog {

/// Queries of a split, and how many of them one rule proves from facts, the query itself not being
/// one: what a proof of one rule can do at most.
struct SplitStats {
  int64_t queries = 0;
  int64_t by_one_rule = 0;
  /// The same of as many false queries: the second constant is another one, drawn from those that
  /// its domain allows, and of no split.
  int64_t false_queries = 0, false_by_one_rule = 0;
  int64_t facts = 0;    ///< queries that are facts
  int64_t unknown = 0;  ///< queries with a constant or predicate that no fact has
};

/// Whether one rule whose body is all facts proves a ground query. `query` itself is no fact.
bool one_rule_proves(const Knowledge& knowledge, const Atom& query);

struct DatasetStats {
  SplitStats train, valid, test;
};
/// `knowledge` is the dataset's.
DatasetStats stats_of(const Dataset& dataset, const Knowledge& knowledge);

}  // namespace maglev::datalog
