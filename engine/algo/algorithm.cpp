#include "engine/algo/algorithm.h"

#include "engine/core/error.h"

namespace maglev {

const AlgoEntry& find_algo(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& e : algo_table()) {
    if (name == e.name) return e;
    known.emplace_back(e.name);
  }
  throw Error("[algo] " + unknown_name("algorithm", name, known));
}

}  // namespace maglev
