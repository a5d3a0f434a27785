#include "engine/algo/algorithm.h"

#include "engine/core/find.h"

namespace maglev {

const AlgoEntry& find_algo(std::string_view name) {
  return find_row(algo_table(), name, "[algo] ", "algorithm");
}

}  // namespace maglev
