#include "engine/algo/algorithm.h"

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/find.h"
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

const AlgoEntry& find_algo(std::string_view name) {
  return find_row(algo_table(), name, "[algo] ", "algorithm");
}

}  // namespace maglev
