#include "engine/algo/algorithm.h"

#include <algorithm>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/find.h"
#include "base/core/home.h"
#include "base/core/words.h"
#include "engine/algo/entries.h"

namespace maglev {

Carry Carry::rows(int64_t begin, int64_t count) const {
  Carry cut;
  for (const auto& part : parts) cut.parts.push_back(part.narrow(0, begin, count));
  return cut;
}

void check_plan(const DataPlan& plan, Precision precision, const char* algorithm) {
  if (plan.collect_steps < 1)
    throw Error("[algo] " + std::string(algorithm) + "'s plan collects " +
                std::to_string(plan.collect_steps) +
                " steps an update, and 1 is the least; give the setting that says so a range");
  if (plan.offers(precision)) return;
  std::string has = "fp32";
  for (Precision one : plan.precisions) has += ", " + std::string(name_of(one));
  throw Error("[train] train.precision=" + std::string(name_of(precision)) + " is not offered by " +
              algorithm + ", which has " + has + " there; use one of these or auto");
}

std::span<const AlgoEntry> algo_table() {
  static const auto table = [] {
    std::vector<AlgoEntry> rows;
    for (const MakeAlgoEntry entry : algo_makers()) {
      const AlgoEntry row = entry();
      const auto expect = [&](bool there, const char* member) {
        if (!there)
          throw Error("[algo] " + std::string(row.name) + "'s entry has no ." + member +
                      ", which every algorithm has");
      };
      expect(row.make_options, "make_options"), expect(row.describe, "describe");
      expect(row.make, "make"), expect(row.make_policy, "make_policy");
      rows.push_back(row);
    }
    return rows;
  }();
  return table;
}

std::string joined_notes(const std::string& first, const std::string& second) {
  return first + (first.empty() || second.empty() ? "" : "; ") + second;
}

namespace {

// what to take in place of one that is not here; empty: nobody knows it
std::string answer_to_algorithm(std::string_view name) {
  const std::string word = lower_case(name);
  for (const AlgoEntry& ours : algo_table())
    for (const ServesFor& other : ours.serves_for)
      if (std::ranges::find(other.theirs, word) != other.theirs.end())
        return std::string(name) + " is not here; " + ours.name + " " + other.purpose + " (" +
               command_name() + " train " + ours.name + " ENVIRONMENT)";
  return "";
}

}  // namespace

const AlgoEntry& find_algo(std::string_view name) {
  const auto rows = algo_table();
  const bool known = std::ranges::any_of(rows, [&](const auto& row) { return row.name == name; });
  const std::string answer = known ? "" : answer_to_algorithm(name);
  if (!answer.empty()) throw Error("[algo] " + answer);
  return find_row(algo_table(), name, "[algo] ", "algorithm");
}

}  // namespace maglev
