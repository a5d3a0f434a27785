#pragma once
// Traces of several processes as one, on one clock. Each file is read twice and none is held: once
// for its clocks and marks, once to write its events behind those of the files before, with times,
// pids and flow numbers that hold among them all. Windows of one process of ours keep one pid.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace maglev {

/// What the times of a file were taken by.
enum class MergeClock {
  reference,  ///< the first file's: its own
  machine,    ///< one start of one machine: its CLOCK_MONOTONIC
  marks,      ///< spans that end together in both
  system,     ///< CLOCK_REALTIME, as good as the machines keep it
  none,       ///< the file says no clock: its first event is where the first file's is
};
constexpr auto names_of(MergeClock) {
  return std::array{"the first file's", "the machine's", "marks", "the system's", "none"};
}

struct MergedTrace {
  std::string path, run;
  MergeClock clock = MergeClock::reference;
  int64_t shift_ns = 0;     ///< added to its times, at its first event
  double drift_ppm = 0;     ///< by which its clock is slower than the first file's
  uint64_t marks = 0;       ///< that were matched
  int64_t residual_ns = 0;  ///< median distance of matched marks once the clocks are aligned
  uint64_t events = 0;
  size_t process =
      0;  ///< the first file that is a window of the same process; its own number: none
  bool torn = false;
};

/// Writes the files' events as one trace in Chrome's JSON. `marks`: name of spans that end together
/// in all files, such as iterations that wait for each other, told apart by args.step or else their
/// number; empty: spans with "barrier" in their name, between machines. Throws Error where a file
/// is no trace, or says of no clock and shares no marks while marks are named.
std::vector<MergedTrace> merge_traces(const std::vector<std::string>& paths,
                                      const std::string& marks,
                                      const std::function<void(std::string_view)>& out);

}  // namespace maglev
