#pragma once
// How devices were used in a window of a trace: the time in which something computes, communicates
// or copies, and the causes of the time in which nothing does.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/timeline/meaning.h"
#include "base/timeline/timeline.h"

namespace maglev {

struct Gap;
struct UsedTime;

/// What launched a device's work: spans of threads by correlation.
class Launches {
 public:
  explicit Launches(const Timeline& timeline);
  /// The launch of `work`, null where the trace has none. Of launches with one number (processes
  /// merged into a trace) the last that began before it.
  const Span* of(const Span& work) const;
  /// Whether every launch of its number began later than the work: clocks that disagree.
  bool begins_before_launch(const Span& work) const;

 private:
  const Timeline& timeline_;
  std::vector<std::pair<uint32_t, uint32_t>> by_link_;
};

/// A part of a trace, [from, to), with what is known of it.
struct TraceWindow {
  const Timeline& timeline;
  Meanings& meanings;
  const Launches& launches;
  size_t main;  ///< the thread that launches, where the trace does not say which one did
  int64_t from, to;
};

/// Adds the window to `used`, one entry a device, and to `gaps` the longest stretches in which a
/// device did nothing. A gap's time is told by what the thread did that launched what ends it: up
/// to the launch by its spans, from there as launch.
void add_devices(const TraceWindow& window, std::vector<UsedTime>& used, std::vector<Gap>& gaps);

}  // namespace maglev
