#pragma once
// Working on a sweep: trials as processes of their own, side by side.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/train/training_run.h"
#include "verbs/sweep/board.h"

namespace maglev::verbs::sweep {

struct WorkOptions {
  int64_t parallel = 0;  ///< trials at once; 0: as many as threads and memory allow
  double budget_s = std::numeric_limits<double>::infinity();  ///< no trial begins later
  double until = std::numeric_limits<double>::infinity();     ///< nor once a trial scores as much
  /// All settings of a trial, as YAML, from its own. Throws Error where they contradict each other.
  std::function<std::string(const std::vector<std::string>& settings)> resolved;
};

/// Trains trials until none is left, shown on standard error. A trial that fails is written down as
/// failed and the sweep goes on. One that was killed is gone on with, once; killed again it stays
/// as it is, running, for the next worker. stopped: a signal came, and the same command goes on.
/// Throws Error, once those that train have ended, where the disk is full: what was cut off by that
/// is gone on with by the same command too.
RunOutcome work(Board& board, const Experiment& experiment, const WorkOptions& options);

}  // namespace maglev::verbs::sweep
