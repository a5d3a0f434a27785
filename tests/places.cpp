#include "tests/places.h"

namespace maglev {

std::string in_checkout(const std::string& path) { return MAGLEV_SOURCES "/" + path; }

std::string fake_library(const std::string& name) {
  return MAGLEV_BUILT_TESTS "/libfake_" + name + ".so";
}

}  // namespace maglev
