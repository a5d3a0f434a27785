#pragma once
// The processes that share a run: the first has the folder and the people, the others do what it
// does with environments of their own.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/process_group.h"
#include "engine/algo/experiment.h"
#include "engine/group/group.h"
#include "engine/host/machine.h"
#include "engine/train/trainer.h"

namespace maglev {

/// What the first of the setting processes has of `whole`. Throws Error where the run cannot be
/// shared by so many.
Placement share_of(const Experiment& experiment, const Placement& whole);

class Processes {
 public:
  /// Starts the others by `command` where there are to be any, and sets `placement`'s group. They
  /// begin with the checkpoint in folder `from`; empty: anew. Outlives every Trainer at that
  /// placement. Throws Error.
  Processes(const Experiment& experiment, const std::vector<std::string>& command,
            Placement& placement, const std::string& from = "");
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// The run has ended well: the others end too, and are waited for.
  void end(Trainer& trainer);

 private:
  std::unique_ptr<ProcessGroup> orders_;  ///< null: there are no others
  std::jthread watch_;                    ///< of GPUs; ends behind the group, whose end may wait
  std::unique_ptr<Group> group_;
};

}  // namespace maglev
