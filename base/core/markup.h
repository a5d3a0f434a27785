#pragma once
// Text within HTML and SVG.

#include <string>
#include <string_view>

namespace maglev {

/// `text` with &, <, > and double quotes as HTML and SVG want them, in an attribute too.
std::string escaped(std::string_view text);

}  // namespace maglev
