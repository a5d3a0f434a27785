#pragma once
// Reading traces: Chrome's trace format (an object with "traceEvents", or the bare array), as our
// own recorder, PyTorch's profiler (Kineto) and most other tools write it, gzipped or not, and what
// Nsight Systems exports for SQLite, in the same form. Events come one at a time out of a window of
// the file; nothing is kept of those that were read.
//
// The format: "Trace Event Format", Google, 2016. Times and durations there are microseconds, as
// numbers or as strings; here they are nanoseconds, for a double has no room for those since 1970.
// Threads: an object belongs to one thread.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/trace/counters.h"

namespace maglev {

/// One event as it stands in the file. Texts are views into the reader's window, valid until the
/// next event, without quotes and with their escapes (`unescaped`).
struct TraceEvent {
  char phase = 0;  ///< X complete, B and E its ends, M metadata, C counter, s t f flows, ...
  std::string_view name, category;
  std::string_view process, thread;  ///< pid and tid: numbers or words
  std::string_view id;               ///< what ties a flow's events together
  int64_t start_ns = 0;
  int64_t duration_ns = 0;  ///< of X; negative where the file says so
  bool timed = false;       ///< it had a ts that is a number

  // of its args, where it has them
  uint64_t correlation = 0;  ///< what ties a launch to its kernel; 0: nothing
  double bytes = 0, flops = 0;
  double taken = 0;            ///< args.Bytes of "[memory]"; negative: given back
  bool of_device = false;      ///< args."Device Type" of it
  std::string_view arg_name;   ///< args.name: what M says of a process or thread
  std::string_view on;         ///< args.on: what a thread waits for
  std::string_view direction;  ///< args.direction of a copy
  bool pageable = false;
  std::string_view step;  ///< args.step: which iteration it is
  /// What a stage counted, in the order of trace::kCounters; negative: it did not say.
  std::array<float, trace::kCounters.size()> counts;
  bool counted = false;  ///< it says some

  // where it stands, for who writes it anew
  std::string_view text;             ///< from brace to brace
  std::string_view start, duration;  ///< its ts and dur as they stand
};

/// What a file holds beside its events, and in which state it was.
struct TraceFile {
  std::string maglev;    ///< the object "maglev" as JSON; empty: not ours
  int64_t base_ns = 0;   ///< "baseTimeNanoseconds": what times count from; 0: not said
  uint64_t bytes = 0;    ///< read, after decompression
  uint64_t events = 0;   ///< well formed
  uint64_t broken = 0;   ///< elements that are no events: no object, or values of the wrong kind
  uint64_t unsound = 0;  ///< of those, spans or ends of some whose time or length is none
  bool torn = false;     ///< ends, or stops being JSON, in the middle of its events
};

/// Calls `take` with every event of a file, in its order. Memory does not grow with the file: an
/// event of more than 16 MiB ends the reading as torn, as does what is no JSON. Throws Error where
/// there is no regular file, or one that is no trace.
TraceFile read_trace(const std::string& path, const std::function<void(const TraceEvent&)>& take);

/// A text of an event with its escapes replaced, without control characters.
std::string unescaped(std::string_view text);
/// Control characters become spaces: a NUL ends a text for whoever prints it, and others move a
/// terminal's cursor. Those of Latin-1's second half are among them, as UTF-8.
std::string without_controls(std::string text);
/// A time as events have it, 1234567 ns as "1234.567".
std::string microseconds_text(int64_t ns);

}  // namespace maglev
