#pragma once
// --temperature, of the verbs that have policies draw their actions.

#include <optional>

#include "verbs/arguments.h"

namespace maglev::verbs::play {

/// What was given for it; empty when it was not. Throws Error where no policy draws at it.
std::optional<float> temperature_given(const Arguments& arguments);

}  // namespace maglev::verbs::play
