#pragma once
// Numbers within text.

#include <string>

namespace maglev {

/// What printf writes of `format` and the values behind it.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

}  // namespace maglev
