#pragma once
// The files of the page, compiled in.

#include <span>

#include "base/web/files.h"

namespace maglev::verbs::watch {

std::span<const WebFile> watch_files();

}  // namespace maglev::verbs::watch
