#pragma once
// How the machines of a run come together: the first listens, the others come to it, and it tells
// each who is before it in the line.

#include <functional>
#include <string>

#include "base/processes/machine_line.h"
#include "base/processes/socket.h"

namespace maglev {

/// A neighbour in the line: two connections to it, and what people call it.
struct Neighbour {
  Socket data, news;
  std::string name;
};

/// What a machine has once all have come.
struct Met {
  int machine = 0;
  MachineLine::Run run;
  Neighbour before, behind;  ///< without connections at the line's ends
};

/// As MachineLine::lead and MachineLine::join. Throw Error.
Met wait_for_machines(const std::string& address, const MachineLine::Run& run,
                      const std::function<void(const std::string&)>& say);
Met come_to_machines(const std::string& address, const std::string& build, double patience_s,
                     const std::function<void(const std::string&)>& say);

}  // namespace maglev
