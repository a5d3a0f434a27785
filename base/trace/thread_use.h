#pragma once
// What threads had of the machine while they were traced: time on a processor, time in which they
// wanted one and had none, faults, switches. Spans say what a thread was at; this says whether it
// ran. Linux's /proc; elsewhere nothing is known.

#include <cstdint>
#include <string>
#include <vector>

namespace maglev::trace {

/// Of one thread. Times in ns.
struct ThreadUse {
  int64_t tid = 0;
  int64_t on_processor = 0;
  int64_t queued = 0;      ///< ready to run while others did
  int64_t in_kernel = 0;   ///< of on_processor, the system's part
  int64_t faults = 0;      ///< pages that were not there, none of them from a disk
  int64_t gave_up = 0;     ///< switches because it waited: a lock, a disk, a sleep
  int64_t taken_away = 0;  ///< switches because others were due
};

/// All threads of this process since each began, by tid. `process`: its folder of /proc.
std::vector<ThreadUse> use_of_threads(const std::string& process = "/proc/self");
/// All of them together; its tid is 0.
ThreadUse sum_of(const std::vector<ThreadUse>& threads);
/// What came between two of them, of the threads in `end`.
std::vector<ThreadUse> use_between(const std::vector<ThreadUse>& begin,
                                   const std::vector<ThreadUse>& end);

}  // namespace maglev::trace
