#include "verbs/checkpoint_asked.h"

#include "base/core/error.h"

namespace maglev::verbs {

std::string checkpoint_asked(const std::string& verb, const Arguments& arguments,
                             const RunName& named) {
  if (named.checkpoint != "latest" && arguments.has("--checkpoint"))
    throw Error("[" + verb + "] " + arguments.positional()[0] +
                " names a checkpoint already; leave out --checkpoint");
  return arguments.value("--checkpoint").value_or(named.checkpoint);
}

}  // namespace maglev::verbs
