#pragma once
// Looking a row up in a plug-in table.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"

namespace maglev {

/// The row called `name`. Throws Error with near names; `where` begins its message ("[env] ") and
/// `kind` is the noun shown.
template <class Row>
const Row& find_row(std::span<const Row> table, std::string_view name, std::string_view where,
                    std::string_view kind) {
  std::vector<std::string> known;
  for (const Row& row : table) {
    if (name == row.name) return row;
    known.emplace_back(row.name);
  }
  throw Error(std::string(where) + unknown_name(kind, name, known));
}

}  // namespace maglev
