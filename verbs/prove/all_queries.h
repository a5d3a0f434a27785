#pragma once
// Which queries of a data set are provable, and in how few steps: all of them, exhaustively.

#include <cstdint>
#include <string>
#include <vector>

#include "base/core/terminal.h"
#include "base/datalog/dataset.h"

namespace maglev::verbs::prove {

struct AllQueries {
  std::string splits = "test";  ///< train, valid, test, with commas
  int32_t depth = 3;
  bool exclude_query = false;
  int64_t threads = 0;  ///< 0: all
};

struct AllAnswers {
  AllQueries asked;
  std::vector<datalog::Atom> queries;
  std::vector<int32_t> steps;  ///< of each, -1: not provable
  int64_t may_need_more = 0;   ///< not provable in so few steps, though a rule is about them
  double index_seconds = 0;    ///< to order facts and rules
  double seconds = 0;          ///< to answer
};

/// Throws Error for a split that is none.
AllAnswers answer_all(const datalog::Dataset& data, const AllQueries& asked);
/// The data set with these steps as depths of the splits that were asked for.
datalog::Dataset with_depths(datalog::Dataset data, const AllAnswers& answers);
/// How many are provable in how many steps.
std::string answers_text(const datalog::Dataset& data, const AllAnswers& answers,
                         const Terminal& terminal);
/// The same with every query.
std::string answers_json(const datalog::Dataset& data, const AllAnswers& answers);

}  // namespace maglev::verbs::prove
