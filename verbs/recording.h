#pragma once
// Files that verbs draw into.

#include <memory>
#include <string>

#include "base/picture/animation.h"

namespace maglev::verbs {

/// A moving picture for `verb` to be written to `file`, where there may be one. Throws Error when the
/// file is there and `overwrite` is false, when it is a folder, or cannot be made.
std::unique_ptr<Animation> recording_to(const std::string& verb, const std::string& file,
                                        bool overwrite);

}  // namespace maglev::verbs
