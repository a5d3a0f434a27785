#include "engine/env/entry.h"

#include "engine/core/error.h"

namespace maglev {

const EnvEntry& find_env(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& e : env_table()) {
    if (name == e.name) return e;
    known.emplace_back(e.name);
  }
  throw Error("[env] " + unknown_name("environment", name, known));
}

}  // namespace maglev
