#pragma once
// maglev bench run: one experiment as it would be trained here, by itself or in turn with others.

#include "verbs/arguments.h"

namespace maglev::verbs::bench {

/// The exit status. Throws Error where such a run is refused.
int one_run(const Arguments& arguments);

}  // namespace maglev::verbs::bench
