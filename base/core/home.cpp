#include "base/core/home.h"

#include <cstdlib>

namespace maglev {

std::string home_folder() {
  const char* home = std::getenv("MAGLEV_HOME");
  return home ? home : ".";
}

std::string installed_python() {
  const char* python = std::getenv("MAGLEV_INSTALLED");
  return python ? python : "";
}

std::string command_name() { return installed_python().empty() ? "./maglev" : "maglev"; }

std::string how_to_get(const std::string& name) {
  const std::string python = installed_python();
  return python.empty() ? "run ./maglev setup"
                        : python + " -m pip install 'maglev-engine[" + name + "]'";
}

}  // namespace maglev
