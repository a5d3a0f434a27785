#include "base/datalog/pykeen.h"

#include <cstdlib>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"

namespace maglev::datalog {

std::string pykeen_folder() {
  // the build's choice is a macro of this file alone (cmake/Pykeen.cmake)
  const char* chosen = std::getenv("MAGLEV_PYKEEN");
  const bool installed = !installed_python().empty();
  const std::string folder = chosen && *chosen ? chosen
                             : installed       ? home_folder() + "/../pykeen"
                                               : MAGLEV_PYKEEN;
  const std::string how =
      "; " + how_to_get("pykeen") +
      ", or set MAGLEV_PYKEEN to the folder of the Python package pykeen 1.11.1 "
      "(.../site-packages/pykeen)";
  if (folder.empty())
    throw Error("[pykeen] this graph lies in PyKEEN's package, which the build did not find" + how);
  if (!path_exists(folder + "/datasets/umls/train.txt"))
    throw Error("[pykeen] expected datasets/umls/train.txt in " + folder + ", found none" + how);
  return folder;
}

}  // namespace maglev::datalog
