#include "base/core/json_quoted.h"

#include <nlohmann/json.hpp>

namespace maglev {

std::string json_quoted(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace maglev
