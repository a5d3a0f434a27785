#pragma once
// Whether what an environment says of itself fits together: before anything is sized from it.

#include "base/env/spec.h"

namespace maglev {

/// Throws Error that names environment, column and what is wrong, as an author meets it.
void check_spec(const EnvSpec& spec, const char* env);

}  // namespace maglev
