#pragma once
// How fast one run trains, as it would be trained: its settings, threads and device.

#include <cstdint>
#include <string>

#include "engine/algo/experiment.h"
#include "verbs/bench/timings.h"

namespace maglev::verbs::bench {

struct RunSpeed {
  Timing step;          ///< seconds of an environment step by the clock, updates included
  double warmup_s = 0;  ///< from nothing until libraries and graphs are set up, by the clock
  int64_t steps_per_iteration = 0;  ///< environment steps, or updates from a dataset
  int64_t peak_bytes = 0;           ///< the most memory of this process so far
  int64_t device_peak_bytes = 0;    ///< the most that torch reserved on its GPU; 0: it is on none
  std::string device;  ///< and threads and precision, for people: "cpu, 2 threads, fp32"
};

/// MiB, as --json and --log write memory.
constexpr double mib(int64_t bytes) { return double(bytes) / (1 << 20); }

/// Trains in memory alone, nothing is written: until libraries and graphs are set up, then in
/// `rounds` of at least `seconds` each, in whole iterations. What train.precision=auto becomes is
/// written into `experiment`. Throws Error where such a run is refused.
RunSpeed measure_run(Experiment& experiment, int rounds, double seconds);

}  // namespace maglev::verbs::bench
