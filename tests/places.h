// Where tests find files. One small source names the folders: all else compiles alike in every
// checkout, and ccache knows it again.

#pragma once

#include <string>

namespace maglev {

/// `path` of the checkout, in full.
std::string in_checkout(const std::string& path);

/// The library that tests/CMakeLists.txt calls fake_`name`, in full.
std::string fake_library(const std::string& name);

}  // namespace maglev
