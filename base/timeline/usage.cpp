#include "base/timeline/usage.h"

#include <algorithm>
#include <array>

#include "base/timeline/analysis.h"
#include "base/timeline/nesting.h"

namespace maglev {
namespace {

constexpr size_t kGaps = 10;
constexpr uint32_t kUnnamedGap = 0xffffffff;

// a stretch of a gap in which `track` should have launched something
struct Blame {
  int64_t begin, end;
  uint32_t track, gap;
};

// ns of [from, to) that at least one of `works` covers; they are in order of their begin
template <class Which>
int64_t covered(const Timeline& timeline, const std::vector<uint32_t>& works, int64_t from,
                int64_t to, const Which& which) {
  int64_t sum = 0, until = from;
  for (const uint32_t i : works) {
    const Span& span = timeline.spans[i];
    if (!which(span.kind)) continue;
    const int64_t begin = std::max(span.begin, until), end = std::min(span.end, to);
    if (end > begin) sum += end - begin, until = end;
  }
  return sum;
}

bool computes(SpanKind kind) { return kind == SpanKind::kernel; }
bool computes_or_communicates(SpanKind kind) {
  return kind == SpanKind::kernel || kind == SpanKind::communication;
}

}  // namespace

Launches::Launches(const Timeline& timeline) : timeline_(timeline) {
  for (uint32_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (span.link && !on_device(span.kind)) by_link_.emplace_back(span.link, i);
  }
  std::sort(by_link_.begin(), by_link_.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first
                              : timeline.spans[a.second].begin < timeline.spans[b.second].begin;
  });
}

const Span* Launches::of(const Span& work) const {
  if (!work.link) return nullptr;
  const auto behind = std::partition_point(by_link_.begin(), by_link_.end(), [&](const auto& l) {
    return l.first < work.link ||
           (l.first == work.link && timeline_.spans[l.second].begin <= work.begin);
  });
  if (behind == by_link_.begin() || behind[-1].first != work.link) return nullptr;
  return &timeline_.spans[behind[-1].second];
}

bool Launches::begins_before_launch(const Span& work) const {
  if (!work.link || of(work)) return false;
  const auto first = std::partition_point(by_link_.begin(), by_link_.end(),
                                          [&](const auto& l) { return l.first < work.link; });
  return first != by_link_.end() && first->first == work.link;
}

void add_devices(const Timeline& timeline, Meanings& meanings, const Launches& launches,
                 size_t main, int64_t from, int64_t to, std::vector<UsedTime>& used,
                 std::vector<Gap>& gaps) {
  // work of each device, all streams together, in order
  std::vector<std::vector<uint32_t>> works;
  std::vector<std::string> names;
  for (const Track& track : timeline.tracks) {
    if (!track.stream) continue;
    works.resize(std::max<size_t>(works.size(), track.device + 1));
    names.resize(works.size());
    names[track.device] = "GPU " + track.process;
  }
  for (uint32_t i = 0; i < timeline.spans.size(); ++i)
    if (on_device(timeline.spans[i].kind))
      works[timeline.tracks[timeline.spans[i].track].device].push_back(i);
  used.resize(std::max(used.size(), works.size()));

  std::vector<Blame> blames;
  std::vector<Gap> found;                               // the longest of this window
  std::vector<std::array<int64_t, kCauses>> found_why;  // ns of each by cause
  std::vector<uint32_t> blame_device;
  for (size_t device = 0; device < works.size(); ++device) {
    auto& work = works[device];
    UsedTime& use = used[device];
    use.name = names[device];
    std::sort(work.begin(), work.end(), [&](uint32_t a, uint32_t b) {
      const Span &x = timeline.spans[a], &y = timeline.spans[b];
      return x.begin != y.begin ? x.begin < y.begin : a < b;
    });
    const auto any = [](SpanKind) { return true; };
    const auto whole_from = std::numeric_limits<int64_t>::min(),
               whole_to = std::numeric_limits<int64_t>::max();
    const int64_t all_compute = covered(timeline, work, whole_from, whole_to, computes);
    use.active_compute += all_compute;
    use.active_other += covered(timeline, work, whole_from, whole_to, any) - all_compute;

    const int64_t compute = covered(timeline, work, from, to, computes);
    const int64_t busy = covered(timeline, work, from, to, computes_or_communicates);
    const int64_t all = covered(timeline, work, from, to, any);
    use.wall += to - from;
    use.busy += compute, use.communication += busy - compute, use.copy += all - busy;

    // gaps: before the first, between, behind the last; the longest are named
    struct Idle {
      int64_t begin, end;
      uint32_t before, after;
    };
    std::vector<Idle> idle;
    int64_t until = from;
    uint32_t last = kUnnamedGap;
    for (const uint32_t i : work) {
      const Span& span = timeline.spans[i];
      if (span.begin >= to) break;
      if (span.begin > until) idle.push_back({until, span.begin, last, i});
      if (span.end >= until) until = std::max(until, span.end), last = i;
    }
    if (until < to) idle.push_back({until, to, last, kUnnamedGap});
    std::vector<uint32_t> longest(idle.size());
    for (uint32_t i = 0; i < idle.size(); ++i) longest[i] = i;
    const size_t most = std::min(kGaps, idle.size());
    std::partial_sort(longest.begin(), longest.begin() + std::ptrdiff_t(most), longest.end(),
                      [&](uint32_t a, uint32_t b) {
                        return idle[a].end - idle[a].begin > idle[b].end - idle[b].begin;
                      });
    longest.resize(most);
    std::sort(longest.begin(), longest.end());

    size_t next_named = 0;
    for (uint32_t i = 0; i < idle.size(); ++i) {
      uint32_t gap = kUnnamedGap;
      const auto name = [&](uint32_t span) {
        return span == kUnnamedGap ? std::string("-") : timeline.names[timeline.spans[span].name];
      };
      if (next_named < longest.size() && longest[next_named] == i) {
        ++next_named;
        gap = uint32_t(found.size());
        found.push_back({.begin = idle[i].begin,
                         .length = idle[i].end - idle[i].begin,
                         .where = use.name,
                         .before = name(idle[i].before),
                         .after = name(idle[i].after)});
        found_why.push_back({});
      }
      const Span* launch =
          idle[i].after == kUnnamedGap ? nullptr : launches.of(timeline.spans[idle[i].after]);
      const int64_t launched =
          launch ? std::clamp(launch->begin, idle[i].begin, idle[i].end) : idle[i].end;
      if (launched > idle[i].begin) {
        blames.push_back(
            {idle[i].begin, launched, launch ? uint32_t(launch->track) : uint32_t(main), gap});
        blame_device.push_back(uint32_t(device));
      }
      use.idle[size_t(Cause::launch)] += idle[i].end - launched;
      if (gap != kUnnamedGap) found_why[gap][size_t(Cause::launch)] += idle[i].end - launched;
    }
  }

  // what each thread did instead, thread by thread; stretches of two devices may lie over each
  // other
  std::vector<uint32_t> order(blames.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (blames[a].track != blames[b].track) return blames[a].track < blames[b].track;
    if (blame_device[a] != blame_device[b]) return blame_device[a] < blame_device[b];
    return blames[a].begin < blames[b].begin;
  });
  for (size_t first = 0; first < order.size();) {
    const uint32_t track = blames[order[first]].track, device = blame_device[order[first]];
    size_t next = first;
    const auto spans = spans_of(timeline, track);
    const auto mine = [&](size_t i) {
      return i < order.size() && blames[order[i]].track == track &&
             blame_device[order[i]] == device;
    };
    each_stretch(spans, from, to, [&](int64_t begin, int64_t end, std::span<const uint32_t> stack) {
      while (mine(next) && blames[order[next]].end <= begin) ++next;
      if (!mine(next) || blames[order[next]].begin >= end) return;
      const auto cause = size_t(cause_of(timeline, meanings, spans, stack));
      for (size_t i = next; mine(i) && blames[order[i]].begin < end; ++i) {
        const Blame& blame = blames[order[i]];
        const int64_t part = std::min(end, blame.end) - std::max(begin, blame.begin);
        used[device].idle[cause] += part;
        if (blame.gap != kUnnamedGap) found_why[blame.gap][cause] += part;
      }
    });
    while (mine(first)) ++first;
  }

  for (size_t i = 0; i < found.size(); ++i) {
    const auto most = std::max_element(found_why[i].begin(), found_why[i].end());
    found[i].cause = Cause(most - found_why[i].begin());
    gaps.push_back(found[i]);
  }
}

}  // namespace maglev
