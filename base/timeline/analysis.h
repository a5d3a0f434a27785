#pragma once
// Where a trace's time went: stages, operations, kernels, copies, idle time by cause, gaps; and by
// replay of its spans what the time would be without one of them. Windows of a timeline are added
// one by one; all times are ns.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/timeline/findings.h"
#include "base/timeline/meaning.h"
#include "base/timeline/origin.h"
#include "base/timeline/replay.h"
#include "base/timeline/timeline.h"

namespace maglev {

/// Spans of one name.
struct NamedTime {
  std::string name;
  uint64_t calls = 0;
  int64_t total = 0;  ///< from begin to end; of a name inside itself the outer one's
  int64_t self = 0;   ///< without what lies inside
  int64_t longest = 0;
  double bytes = 0, flops = 0;
  /// Of stages: what they counted in `total`, in the order of trace::kCounters; 0: nothing.
  std::array<double, trace::kCounters.size()> counts{};

  double mean() const { return calls ? double(total) / double(calls) : 0; }
};

/// A process of the trace, where it has several.
struct ProcessTime {
  std::string name, pid;
  uint64_t threads = 0, spans = 0, iterations = 0;
  int64_t begin = 0, wall = 0;  ///< of the thread that leads: its iterations, else its spans
  int64_t busy = 0, waits = 0;  ///< of it
};

/// One device, or one thread.
struct UsedTime {
  std::string name;
  int64_t wall = 0;
  int64_t busy = 0;                     ///< of a device: kernels that compute
  int64_t communication = 0, copy = 0;  ///< of a device: while nothing computes
  std::array<int64_t, kCauses> idle{};  ///< by cause
  int64_t untraced = 0;                 ///< of a thread: no span is there
  // of a device, from its first operation to its last wherever the wall begins
  int64_t active = 0, active_compute = 0, active_other = 0;

  int64_t idle_total() const {
    int64_t sum = 0;
    for (const int64_t part : idle) sum += part;
    return sum;
  }
};

struct CopiedBytes {
  CopyWay way = CopyWay::unknown;
  bool pageable = false;
  uint64_t calls = 0;
  int64_t total = 0;
  double bytes = 0;
};

/// Memory that torch's allocators gave under spans of one name.
struct AllocatedBytes {
  std::string name;
  bool device = false;  ///< memory of a device
  uint64_t calls = 0;
  double bytes = 0, largest = 0;
};

struct Gap {
  int64_t begin = 0, length = 0;
  Cause cause = Cause::host;
  std::string where, before, after;  ///< device or thread, what ended, what began
};

struct Analysis {
  TraceOrigin origin;
  std::string main_thread;
  int64_t begin = 0,
          wall = 0;  ///< from the first iteration's begin to the last one's end, else all
  uint64_t iterations = 0;
  uint64_t spans = 0, windows = 0;
  TraceFile file;
  std::vector<std::string> doubts;  ///< why it is unreliable; empty: it is not

  // of the main thread: stages' self times, what lies in none of them, and time without a span
  std::vector<NamedTime> stages;  ///< by self time, the longest first, as are the others
  int64_t outside = 0, untraced = 0;
  std::vector<NamedTime> operations;  ///< on processors
  std::vector<NamedTime> kernels;     ///< on devices, in the wall
  std::vector<NamedTime> calls;       ///< of the device's runtime
  std::vector<UsedTime> devices, threads;
  std::vector<ProcessTime> processes;  ///< empty where there is one
  std::vector<CopiedBytes> copies;
  std::vector<AllocatedBytes> allocations;  ///< by bytes; empty where they were not recorded
  std::vector<Gap> gaps;                    ///< the longest of devices, or else of the main thread

  int64_t replayed = 0;        ///< of the wall, that findings rest on
  std::vector<PathPart> path;  ///< what one iteration waits for, by what takes longest
  int64_t path_length = 0;
  std::vector<Finding> findings;  ///< by gain

  bool reliable() const { return doubts.empty(); }
};

/// Reads and analyses a trace. Throws Error where it cannot be read or holds no span.
Analysis analyse_trace(const std::string& path, TimelineLimits limits = {});

}  // namespace maglev
