#include "engine/run/env_title.h"

namespace maglev {

std::string env_title(const Experiment& experiment) {
  const std::string name = experiment.env().name;
  const Field* id = experiment.table().find("env.id");
  if (!id) return name;
  const std::string which = id->plain();
  return name + " " + which.substr(which.rfind(':') + 1);
}

}  // namespace maglev
