#pragma once
// What program this is.

#include <string>

namespace maglev {

/// Version, commit and torch of this build: "maglev 1.0 (3f2a9c1), torch 2.13.0".
std::string build_text();

}  // namespace maglev
