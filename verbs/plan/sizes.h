#pragma once
// Which settings a run's memory depends on, and how far each can go.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"
#include "engine/train/memory_plan.h"

namespace maglev::verbs::plan {

struct Size {
  std::string setting;
  int64_t now = 0;
  int64_t fits = 0;   ///< now doubled or halved until it just fits, all else as it is; 0: none does
  int64_t bytes = 0;  ///< what the run then holds
};

/// Whole-number settings that add at least a hundredth to the plan when they are doubled, those
/// that add most first; without those of which more and more takes no more memory before it stops
/// fitting, as steps that a replay does not keep. `plan` is the experiment's, with the limit that is to be kept.
std::vector<Size> sizes_of(const Experiment& experiment, const Placement& placement,
                           const MemoryPlan& plan);

}  // namespace maglev::verbs::plan
