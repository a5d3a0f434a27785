#pragma once
// What answers to pages are put together from: figures that were asked for, and JSON and pictures
// as texts.

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/core/error.h"
#include "base/web/request.h"

namespace maglev {

/// The query's value as a number; `otherwise` where it is not there. Throws Error where it is none.
template <class T>
T asked_number(const HttpRequest& request, const std::string& name, T otherwise) {
  const std::string_view text = request.asked(name);
  T value = otherwise;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && (read.ec != std::errc() || read.ptr != text.data() + text.size()))
    throw Error("[web] " + name + "=" + std::string(text) + " is no number");
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value))
      throw Error("[web] " + name + "=" + std::string(text) + " is not finite");
  return value;
}

/// Appends a number of at most `digits` digits to JSON; null where it is not finite.
void add_number(std::string& json, double value, int digits);

/// The bytes of a file as an address that holds them, "data:image/png;base64,...".
std::string data_address(std::string_view type, std::string_view bytes);

}  // namespace maglev
