#include "base/core/printed.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

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

}  // namespace maglev
