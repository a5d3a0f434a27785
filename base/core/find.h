#pragma once
// Looking a row up in a plug-in table.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"

namespace maglev {

/// The row called `name`. Throws Error with near names, and where two have it; `where` begins its
/// message ("[env] ") and `kind` is the noun shown.
template <class Row>
const Row& find_row(std::span<const Row> table, std::string_view name, std::string_view where,
                    std::string_view kind) {
  std::vector<std::string> known;
  const Row* found = nullptr;
  for (const Row& row : table) {
    known.emplace_back(row.name);
    if (name != row.name) continue;
    if (found)
      throw Error(std::string(where) + "two are called '" + std::string(name) +
                  "'; the .name of a " + std::string(kind) + "'s entry is its folder's");
    found = &row;
  }
  if (found) return *found;
  throw Error(std::string(where) + unknown_name(kind, name, known));
}

}  // namespace maglev
