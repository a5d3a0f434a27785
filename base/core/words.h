#pragma once
// Names within sentences, and as they are compared.

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace maglev {

/// "greedy, random".
inline std::string joined(const std::vector<std::string>& names, std::string_view between = ", ") {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += between;
    text += name;
  }
  return text;
}

/// The end of a sentence about a name that is none: "; did you mean greedy, random?" of near_names;
/// empty where nothing is near.
inline std::string did_you_mean(const std::vector<std::string>& near) {
  return near.empty() ? "" : "; did you mean " + joined(near) + "?";
}

/// In small letters: those of ASCII.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = char(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace maglev
