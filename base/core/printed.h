#pragma once
// Numbers within text.

#include <cstdint>
#include <string>

namespace maglev {

/// What printf writes of `format` and the values behind it.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

/// A count for people: 1234567 as 1,234,567.
std::string by_thousands(int64_t count);

}  // namespace maglev
