#pragma once
// Which checkpoint of a run the words of a command name.

#include <string>

#include "engine/run/run_name.h"
#include "verbs/arguments.h"

namespace maglev::verbs {

/// What the name (RUN@best) or --checkpoint says. Throws Error of `verb` where both do.
std::string checkpoint_asked(const std::string& verb, const Arguments& arguments,
                             const RunName& named);

}  // namespace maglev::verbs
