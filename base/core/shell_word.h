#pragma once
// Words of commands that people copy.

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace maglev {

/// `word` as a shell reads it back: as it is, or in single quotes.
inline std::string shell_word(std::string_view word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-./=:,+@%").find(char(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace maglev
