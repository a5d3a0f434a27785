#include "engine/algo/algorithm.h"

#include "base/core/find.h"

namespace maglev {

Carry Carry::rows(int64_t begin, int64_t count) const {
  Carry cut;
  for (const auto& part : parts) cut.parts.push_back(part.narrow(0, begin, count));
  return cut;
}

const AlgoEntry& find_algo(std::string_view name) {
  return find_row(algo_table(), name, "[algo] ", "algorithm");
}

}  // namespace maglev
