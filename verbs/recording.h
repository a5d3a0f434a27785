#pragma once
// Files that verbs draw into.

#include <memory>
#include <string>

#include "base/picture/animation.h"

namespace maglev::verbs {

/// A moving picture to be written to `file`, where there may be one. Throws Error when it cannot be
/// made.
std::unique_ptr<Animation> recording_to(const std::string& file);

}  // namespace maglev::verbs
