#pragma once
// A result as JSON, for programs.

#include <string>

#include "verbs/prove/result.h"

namespace maglev::verbs::prove {

/// Trees, derivations, the search's counts and the reasons; ends in a line end.
std::string result_json(const Result& result);

}  // namespace maglev::verbs::prove
