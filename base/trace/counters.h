#pragma once
// What the processor and the kernel count while a thread runs: cycles, instructions, misses,
// faults. A thread opens its counters once and reads them at both ends of a stage;
// perf_event_open(2), one group of events, so that all are of the same stretch. Threads: open() and
// what it gives belong to the thread that calls them.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace maglev::trace {

/// Names as spans' args have them. The first four are the processor's, the others the kernel's.
constexpr std::array<std::string_view, 7> kCounters = {
    "cycles",        "instructions", "cache_misses",    "branch_misses",
    "task_clock_ns", "page_faults",  "context_switches"};
constexpr size_t kHardwareCounters = 4;

/// A reading, or what was counted between two, in the order of kCounters; negative: not counted.
using Counts = std::array<int64_t, kCounters.size()>;

/// Reads the counters of the thread that opened them; false: they do not count now.
using ReadCounts = std::function<bool(Counts& counts)>;

/// What counts, and for tests what stands in its place.
struct CounterSource {
  std::function<ReadCounts()> open;  ///< for the calling thread; empty where the system refuses
  std::string lacks = {};  ///< one line: what is not counted, why, what to do; empty: nothing
};

/// The kernel's. Where the processor's own events are refused, as in most virtual machines, the
/// others are counted alone; where all are, `open` is empty. `paranoid`: the file that says who
/// may.
CounterSource perf_counters(const std::string& paranoid = "/proc/sys/kernel/perf_event_paranoid");

/// What was counted from `begin` to `end`.
Counts counted_between(const Counts& begin, const Counts& end);

/// Why perf_event_open failed with `error`, and what to do; `paranoid` is the file's text.
std::string counters_refused(int error, std::string_view paranoid);

}  // namespace maglev::trace
