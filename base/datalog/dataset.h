#pragma once
// A knowledge graph as it is published: facts and rules, and queries split into three.

#include <cstdint>
#include <string>
#include <vector>

#include "base/datalog/program.h"

namespace maglev::datalog {

struct Dataset {
  std::string name, folder;
  Program program;  ///< facts and rules
  std::vector<Atom> train, valid, test;
  /// Steps of the shortest proof of each query; -1: unknown. Empty without a depth file.
  std::vector<int32_t> train_depth, valid_depth, test_depth;
  /// Constants that a predicate's second argument may be, predicate p's at p - 1; empty: any.
  std::vector<std::vector<int32_t>> domains;
};

/// A folder with train.txt, valid.txt, test.txt, rules.txt, or a built-in name.
Dataset open_dataset(const std::string& name_or_folder);

}  // namespace maglev::datalog
