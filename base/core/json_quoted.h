#pragma once
// Text within JSON that is put together by hand.

#include <string>

namespace maglev {

/// `text` as JSON has it, in quotes; what is no UTF-8 of it is replaced.
std::string json_quoted(const std::string& text);

}  // namespace maglev
