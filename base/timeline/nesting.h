#pragma once
// A thread's spans as they lie inside each other: stretches of time, each with the spans around it.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/timeline/timeline.h"

namespace maglev {

/// Calls `take(begin, end, stack)` for [from, to) in stretches without a gap, in order; `stack`
/// holds indices into `spans`, the outermost first, and is empty where no span is. `spans` are
/// those of one track, in a Timeline's order. Returns the ns by which spans reach out of what they
/// began in: those are cut off, for a thread does one thing at a time.
template <class Take>
int64_t each_stretch(std::span<const Span> spans, int64_t from, int64_t to, const Take& take) {
  struct Around {
    uint32_t index;
    int64_t end;
  };
  std::vector<Around> around;
  std::vector<uint32_t> stack;
  int64_t now = from, out_of_place = 0;
  const auto until = [&](int64_t time) {
    time = std::min(time, to);
    if (time > now) take(now, time, std::span<const uint32_t>(stack)), now = time;
  };
  const auto close = [&](int64_t time) {
    while (!around.empty() && around.back().end <= time) {
      until(around.back().end);
      around.pop_back(), stack.pop_back();
    }
  };
  for (uint32_t i = 0; i < spans.size() && spans[i].begin < to; ++i) {
    if (spans[i].end <= from) continue;
    close(spans[i].begin);
    until(spans[i].begin);
    int64_t end = spans[i].end;
    if (!around.empty() && around.back().end < end)
      out_of_place += std::min(end, to) - std::min(around.back().end, to), end = around.back().end;
    around.push_back({i, end}), stack.push_back(i);
  }
  close(to);
  while (!around.empty()) until(to), around.pop_back(), stack.pop_back();
  until(to);
  return out_of_place;
}

/// The spans of one track.
inline std::span<const Span> spans_of(const Timeline& timeline, size_t track) {
  const auto& all = timeline.spans;
  const auto first =
      std::partition_point(all.begin(), all.end(), [&](const Span& s) { return s.track < track; });
  const auto last =
      std::partition_point(first, all.end(), [&](const Span& s) { return s.track == track; });
  return {all.data() + (first - all.begin()), size_t(last - first)};
}

}  // namespace maglev
