#include "base/core/printed.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace maglev {

std::string printed(const char* format, ...) {
  char brief[128];
  std::va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  const auto length = size_t(std::vsnprintf(brief, sizeof brief, format, values));
  std::string text(brief, std::min(length, sizeof brief - 1));
  if (text.size() < length) {
    // one more for the 0 that printf ends with
    text.resize(length + 1);
    std::vsnprintf(text.data(), text.size(), format, again);
    text.pop_back();
  }
  va_end(again);
  va_end(values);
  return text;
}

std::string by_thousands(int64_t count) {
  std::string text = std::to_string(count);
  // a sign is no digit, and no comma follows it
  const int64_t first = count < 0 ? 1 : 0;
  for (int64_t i = std::ssize(text) - 3; i > first; i -= 3) text.insert(size_t(i), 1, ',');
  return text;
}

std::string counted(int64_t count, std::string_view one, std::string_view several) {
  std::string text = std::to_string(count) + " ";
  if (count == 1 || several.empty()) text += one;
  else text += several;
  if (count != 1 && several.empty()) text += "s";
  return text;
}

}  // namespace maglev
