#include "engine/host/build_text.h"

#include <torch/version.h>

#include "base/core/version.h"

namespace maglev {

std::string build_text() {
  const std::string commit = kEngineCommit;
  return std::string("maglev ") + kEngineVersion + (commit.empty() ? "" : " (" + commit + ")") +
         ", torch " + TORCH_VERSION;
}

}  // namespace maglev
