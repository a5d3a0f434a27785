#pragma once
// Stretches of play kept as columns, to be looked at.

#include "engine/algo/experiment.h"
#include "engine/algo/policy.h"
#include "engine/data/batch.h"
#include "engine/host/machine.h"

namespace maglev {

struct RecordOptions {
  int64_t steps = 50;  ///< T
  int64_t envs = 4;    ///< N environments, each from the beginning of an episode
  uint64_t seed = 1'000'003;
  ActMode mode = ActMode::mean;
};

/// `policy` in `experiment`'s environment, playing all agents: columns [T + 1 or T, rows, ...] on
/// the run's device.
Batch record_play(Policy& policy, const Experiment& experiment, const Placement& placement,
                  ThreadPool& pool, const RecordOptions& options);

}  // namespace maglev
