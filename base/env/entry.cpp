#include "base/env/entry.h"

#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/find.h"

namespace maglev {
namespace {

// Walker2d-v5, ALE/Pong-v5, my_envs:Mine-v0
bool is_gymnasiums(std::string_view name) {
  const size_t version = name.rfind("-v");
  return version != name.npos && version + 2 < name.size() &&
         name.find_first_not_of("0123456789", version + 2) == name.npos;
}

}  // namespace

const EnvEntry& find_env(std::string_view name) {
  for (const LeftOutEnv& env : left_out_envs())
    if (name == env.name)
      throw Error("[env] " + std::string(name) + " is not in this build, which found no " +
                  env.missing + "; " + env.install);
  if (name == "pettingzoo")
    throw Error(
        "[env] PettingZoo's are behind gymnasium: gymnasium env.id=pettingzoo:sisl/pursuit-v5, or "
        "env.id=my_envs:MyEnv of a ParallelEnv of yours");
  if (is_gymnasiums(name)) {
    std::vector<std::string> ours;
    for (const EnvEntry& env : env_table()) ours.emplace_back(env.name);
    const std::vector<std::string> near = near_names(name, ours, /*most=*/1);
    throw Error("[env] unknown environment '" + std::string(name) + "'; " +
                (near.empty() ? "as" : "did you mean " + near[0] + "? As") +
                " one of Gymnasium's it is two words: gymnasium env.id=" + std::string(name));
  }
  return find_row(env_table(), name, "[env] ", "environment");
}

}  // namespace maglev
