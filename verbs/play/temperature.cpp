#include "verbs/play/temperature.h"

#include <algorithm>
#include <limits>

#include "engine/play/player.h"

namespace maglev::verbs::play {

std::optional<float> temperature_given(const Arguments& arguments) {
  const auto given =
      arguments.number_above("--temperature", 0, kMostTemperature,
                             "; the likeliest action, to which 0 would lead, is --actions mean");
  if (!given) return std::nullopt;
  // what is 0 as a policy takes it is the least above it
  return std::max(float(*given), std::numeric_limits<float>::min());
}

}  // namespace maglev::verbs::play
