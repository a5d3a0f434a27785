#include "base/env/entry.h"

#include "base/core/find.h"

namespace maglev {

const EnvEntry& find_env(std::string_view name) {
  return find_row(env_table(), name, "[env] ", "environment");
}

}  // namespace maglev
