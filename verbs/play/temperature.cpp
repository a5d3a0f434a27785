#include "verbs/play/temperature.h"

#include <charconv>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "engine/play/player.h"

namespace maglev::verbs::play {

std::optional<float> temperature_given(const std::string& verb, const Arguments& arguments) {
  const auto text = arguments.value("--temperature");
  if (!text) return std::nullopt;
  double number = 0;
  const char* end = text->data() + text->size();
  const auto [behind, error] = std::from_chars(text->data(), end, number);
  // what is 0 as a policy takes it is 0
  if (error == std::errc() && behind == end && float(number) > 0 && number <= kMostTemperature)
    return float(number);
  throw Error("[" + verb + "] --temperature must be a number above 0 and at most " +
              printed("%g", kMostTemperature) + ", got '" + *text +
              "'; the likeliest action, to which 0 would lead, is --actions mean");
}

}  // namespace maglev::verbs::play
