#pragma once
// Numbers within text.

#include <cstdint>
#include <string>
#include <string_view>

namespace maglev {

/// What printf writes of `format` and the values behind it.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

/// A count for people: 1234567 as 1,234,567.
std::string by_thousands(int64_t count);

/// "1 step", "2 steps"; `several` where that is no s behind `one`: "2 queries".
std::string counted(int64_t count, std::string_view one, std::string_view several = "");

}  // namespace maglev
