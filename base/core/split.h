#pragma once
// Lists in one word, as settings and flags take them: "a,b,c".

#include <string>
#include <string_view>
#include <vector>

namespace maglev {

/// The parts of `text` between commas, without empty ones.
inline std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
  }
  return parts;
}

}  // namespace maglev
