#pragma once
// The processes that share a run: the first has the folder and the people, the others do what it
// does with environments of their own.

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/processes/process_group.h"
#include "engine/algo/experiment.h"
#include "engine/group/group.h"
#include "engine/host/machine.h"
#include "engine/train/shared_folder.h"
#include "engine/train/trainer.h"
#include "engine/train/training_run.h"

namespace maglev {

/// What the first of the setting processes has of `whole`. Throws Error where the run cannot be
/// shared by so many.
Placement share_of(const Experiment& experiment, const Placement& whole);

class Processes {
 public:
  /// Starts the others where there are to be any, waits for the other machines, and sets
  /// `placement`'s group. They go on from the checkpoint in folder `from`, or where they are not
  /// `resumed` begin with its networks; empty: anew. Outlives every Trainer at that placement.
  /// Throws Error.
  Processes(const Experiment& experiment, const RunRequest& request, Placement& placement,
            const std::string& from, bool resumed);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// This process's trainer is as the run begins.
  void begun();
  /// Does the first process's `work`; what it throws the others hear of, and fail with.
  template <class Work>
  auto telling_failure(const Work& work) {
    try {
      return work();
    } catch (const std::exception& e) {
      tell_failure(e);
      throw;
    }
  }
  /// The run has ended well: the others end too, and are waited for.
  void end(Trainer& trainer);

 private:
  void tell_failure(const std::exception& e);

  std::unique_ptr<ProcessGroup> orders_;  ///< null: there are no others
  std::jthread watch_;                    ///< of GPUs; ends behind the group, whose end may wait
  std::unique_ptr<Group> group_;
  std::optional<SharedFolder> begins_with_;
};

}  // namespace maglev
