#include "base/env/entry.h"

#include <string>

#include "base/core/error.h"
#include "base/core/find.h"

namespace maglev {

const EnvEntry& find_env(std::string_view name) {
  for (const LeftOutEnv& env : left_out_envs())
    if (name == env.name)
      throw Error("[env] " + std::string(name) + " is not in this build, which found no " +
                  env.missing + "; " + env.install);
  return find_row(env_table(), name, "[env] ", "environment");
}

}  // namespace maglev
