#pragma once
// Lists in one word, as settings and flags take them: "a,b,c"; and settings in one: "name=value".

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"

namespace maglev {

/// The parts of `text` between commas; none of an empty text. Throws Error, which begins with
/// `what`, where a part is empty.
inline std::vector<std::string> split_list(std::string_view text, std::string_view what) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin)
      throw Error("[" + std::string(what) + "] has an empty name in '" + std::string(text) +
                  "'; names stand between single commas");
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The name of name=value; all of a text without '='.
inline std::string name_part(std::string_view setting) {
  return std::string(setting.substr(0, setting.find('=')));
}

}  // namespace maglev
