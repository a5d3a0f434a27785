#pragma once
// The files of the page, compiled in.

#include <span>

#include "base/web/files.h"

namespace maglev::verbs::play {

std::span<const WebFile> play_files();

}  // namespace maglev::verbs::play
