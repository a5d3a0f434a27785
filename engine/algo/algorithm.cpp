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

void expect_offered(const DataPlan& plan, Precision precision, const char* algorithm) {
  if (plan.offers(precision)) return;
  std::string has = "fp32";
  for (Precision one : plan.precisions) has += ", " + std::string(name_of(one));
  throw Error("[train] train.precision=" + std::string(name_of(precision)) + " is not offered by " +
              algorithm + ", which has " + has + " there; use one of these or auto");
}

std::span<const AlgoEntry> algo_table() {
  static const auto table = [] {
    std::vector<AlgoEntry> rows;
    for (const MakeAlgoEntry entry : algo_makers()) rows.push_back(entry());
    return rows;
  }();
  return table;
}

const AlgoEntry& find_algo(std::string_view name) {
  return find_row(algo_table(), name, "[algo] ", "algorithm");
}

}  // namespace maglev
