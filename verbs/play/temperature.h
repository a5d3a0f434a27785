#pragma once
// --temperature, of the verbs that have policies draw their actions.

#include <optional>
#include <string>

#include "verbs/arguments.h"

namespace maglev::verbs::play {

/// What was given for it; empty when it was not. `verb`: who asks. Throws Error where no policy
/// draws at it.
std::optional<float> temperature_given(const std::string& verb, const Arguments& arguments);

}  // namespace maglev::verbs::play
