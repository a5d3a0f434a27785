#pragma once
// Numbers in the JSON that verbs write.

#include <cmath>

#include <nlohmann/json.hpp>

namespace maglev::verbs {

/// `x`, and null where it is not finite, for which JSON has no number.
template <class Json = nlohmann::json>
Json finite_or_null(double x) {
  return std::isfinite(x) ? Json(x) : Json();
}

}  // namespace maglev::verbs
