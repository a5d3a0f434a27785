#pragma once
// What our recorder says of a run beside its spans (docs/tracing.md): what it was, how it was set
// and what its threads had of the machine.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/trace/thread_use.h"

namespace maglev {

/// Zero and empty where a trace says nothing.
struct TraceOrigin {
  std::string run, algorithm, environment, mode;
  bool ours = false;
  int64_t threads = 0, dropped = 0;
  double overhead_s = 0, peak_gflops = 0, peak_gbytes_s = 0;
  double counting_cost_ns = 0;  ///< what a stage took, in the kernel, to count

  int64_t processors = 0;                       ///< that the run may use
  int64_t iteration_steps = 0;                  ///< environment steps of an iteration
  int64_t block_environments = 0;               ///< that a thread steps at once
  std::map<std::string, std::string> settings;  ///< all of the run, by dotted name
  std::vector<trace::ThreadUse> use;            ///< of its threads, over what was traced
  std::vector<trace::ThreadUse> programs;       ///< of those of programs that it started
  std::vector<std::string> torn;                ///< of merged files those that ended too early
  bool in_windows = false;                      ///< merged files are windows of one process

  /// A setting's value as a number; `missing` where there is none or it is no number.
  double number(const std::string& setting, double missing = 0) const;
};

/// Of the object "maglev" as JSON; what is not as it should be is as if it were not there.
TraceOrigin origin_of(const std::string& json);

}  // namespace maglev
