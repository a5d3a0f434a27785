#pragma once
// A run's eval.json: what was found out last, and below "earlier" what was found out before by
// something else that was asked.

#include <string>

#include <nlohmann/json.hpp>

namespace maglev::verbs::eval {

/// `report` with the results of `before`, the text of an eval.json, below "earlier", the newest
/// first. Left out is what was asked in the same way: of the same checkpoint, with equal "asked" and
/// "settings". Text that is no report has none.
nlohmann::json with_earlier(nlohmann::json report, const std::string& before);

}  // namespace maglev::verbs::eval
