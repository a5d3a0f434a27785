#pragma once
// How long a run will take, before it runs: what each stage of an iteration computes, moves and
// hands out, by the rates of a machine (the roofline of Williams, Waterman and Patterson, CACM
// 2009), with what is handed out beside it.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"

namespace maglev {

/// What a machine does at best, of all its threads together.
struct MachineRates {
  double gflops = 0;       ///< multiply-adds in the run's precision, 10^9 operations a second
  double gelements = 0;    ///< values through a function (an activation, a norm), 10^9 a second
  double gigabytes_s = 0;  ///< 10^9 bytes a second, from and to memory
  /// That a thread reads of what another wrote, in blocks that lie in its first cache and in its
  /// second; 0: for nothing.
  double shared_gigabytes_s = 0, shared_large_gigabytes_s = 0;
  double bus_gigabytes_s = 0;  ///< 10^9 bytes a second, from the host to a device
  double launch_s = 0;         ///< of work handed to threads, or of a kernel started
  /// Of one environment's step on the host, threads sharing the environments. Read where the host
  /// steps them: on a processor, and beside a device those that only the host can step.
  double environment_s = 0;
  bool trials = false;  ///< pieces of stages may be tried out here (StageWork::trial)
};

/// What a stage waits for most.
enum class StageLimit { arithmetic, memory, launches, sharing, environment };
constexpr auto names_of(StageLimit) {
  return std::array{"arithmetic", "memory", "launches", "shared data", "environment"};
}

/// Of an iteration.
struct PlannedStage {
  std::string name;
  double seconds = 0;
  StageLimit limit = StageLimit::arithmetic;
  bool tried = false;  ///< its arithmetic was tried out on one thread, not computed from rates
  bool host = false;   ///< of a run on a device: the host does it, and copies what came of it there
  double flops = 0, bytes = 0, launches = 0;
};

struct TimePlan {
  std::vector<PlannedStage> stages;  ///< those of no work left out
  int64_t steps = 0;                 ///< of an iteration, all rows together
  double iteration_s = 0;            ///< stages one after another
  double steps_per_second() const { return double(steps) / iteration_s; }
  /// Of the run's steps. What comes before the first update is taken to be as slow as the rest.
  double run_s(const RunOptions& run) const { return double(run.steps) / steps_per_second(); }
};

/// Iterations of `experiment` once it learns, where `placement` puts it. No stages: the algorithm
/// does not say what it computes, or the run learns from a dataset.
TimePlan plan_time(const Experiment& experiment, const Placement& placement,
                   const MachineRates& rates);

}  // namespace maglev
