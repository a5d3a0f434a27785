#include "base/timeline/usage.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <tuple>

#include "base/timeline/analysis.h"
#include "base/timeline/nesting.h"

namespace maglev {
namespace {

constexpr size_t kGaps = 10;
constexpr uint32_t kNoIndex = 0xffffffff;

// a stretch in which no work of a device was under way, and the spans around it
struct IdleStretch {
  int64_t begin, end;
  uint32_t before, after;  // kNoIndex: the window's ends

  int64_t length() const { return end - begin; }
};

// one of the longest, and its ns by cause
struct NamedGap {
  Gap gap;
  std::array<int64_t, kCauses> why{};
};

// a stretch of a gap in which `track` should have launched something
struct Blame {
  int64_t begin, end;
  uint32_t track, device;
  uint32_t gap;  // among the named; kNoIndex: it is none of the longest
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

// before the first work of [from, to), between, and behind the last; `works` are in order of their
// begin
std::vector<IdleStretch> idle_stretches(const Timeline& timeline,
                                        const std::vector<uint32_t>& works, int64_t from,
                                        int64_t to) {
  std::vector<IdleStretch> idle;
  int64_t until = from;
  uint32_t last = kNoIndex;
  for (const uint32_t i : works) {
    const Span& span = timeline.spans[i];
    if (span.begin >= to) break;
    if (span.begin > until) idle.push_back({until, span.begin, last, i});
    if (span.end >= until) until = std::max(until, span.end), last = i;
  }
  if (until < to) idle.push_back({until, to, last, kNoIndex});
  return idle;
}

// which of them are the longest, in time
std::vector<uint32_t> longest_of(const std::vector<IdleStretch>& idle) {
  std::vector<uint32_t> longest(idle.size());
  for (uint32_t i = 0; i < idle.size(); ++i) longest[i] = i;
  const size_t most = std::min(kGaps, idle.size());
  std::partial_sort(longest.begin(), longest.begin() + std::ptrdiff_t(most), longest.end(),
                    [&](uint32_t a, uint32_t b) { return idle[a].length() > idle[b].length(); });
  longest.resize(most);
  std::sort(longest.begin(), longest.end());
  return longest;
}

// the devices of one window: how long they worked, and what they waited for
class DevicesInWindow {
 public:
  DevicesInWindow(const TraceWindow& window, std::vector<UsedTime>& used)
      : window_(window), timeline_(window.timeline), used_(used) {
    std::vector<std::string> names;
    for (const Track& track : timeline_.tracks) {
      if (!track.stream) continue;
      works_.resize(std::max<size_t>(works_.size(), track.device + 1));
      names.resize(works_.size());
      names[track.device] = "GPU " + track.process;
    }
    for (uint32_t i = 0; i < timeline_.spans.size(); ++i)
      if (on_device(timeline_.spans[i].kind))
        works_[timeline_.tracks[timeline_.spans[i].track].device].push_back(i);
    used_.resize(std::max(used_.size(), works_.size()));
    for (size_t device = 0; device < works_.size(); ++device) {
      used_[device].name = names[device];
      std::sort(works_[device].begin(), works_[device].end(), [&](uint32_t a, uint32_t b) {
        const Span &x = timeline_.spans[a], &y = timeline_.spans[b];
        return x.begin != y.begin ? x.begin < y.begin : a < b;
      });
    }
  }

  void add(std::vector<Gap>& gaps) {
    for (size_t device = 0; device < works_.size(); ++device) add_work(device), add_idle(device);
    add_causes();
    for (NamedGap& named : gaps_) {
      const auto most = std::max_element(named.why.begin(), named.why.end());
      named.gap.cause = Cause(most - named.why.begin());
      gaps.push_back(named.gap);
    }
  }

 private:
  void add_work(size_t device) {
    const auto& work = works_[device];
    UsedTime& use = used_[device];
    const auto any = [](SpanKind) { return true; };
    const auto whole_from = std::numeric_limits<int64_t>::min(),
               whole_to = std::numeric_limits<int64_t>::max();
    const int64_t all_compute = covered(timeline_, work, whole_from, whole_to, computes);
    use.active_compute += all_compute;
    use.active_other += covered(timeline_, work, whole_from, whole_to, any) - all_compute;

    const int64_t from = window_.from, to = window_.to;
    const int64_t compute = covered(timeline_, work, from, to, computes);
    const int64_t busy = covered(timeline_, work, from, to, computes_or_communicates);
    const int64_t all = covered(timeline_, work, from, to, any);
    use.wall += to - from;
    use.busy += compute, use.communication += busy - compute, use.copy += all - busy;
  }

  // up to the launch of what ends it, a stretch waits for who should have launched; then for that
  void add_idle(size_t device) {
    const auto idle = idle_stretches(timeline_, works_[device], window_.from, window_.to);
    const std::vector<uint32_t> longest = longest_of(idle);
    size_t next_named = 0;
    for (uint32_t i = 0; i < idle.size(); ++i) {
      const IdleStretch& stretch = idle[i];
      uint32_t gap = kNoIndex;
      if (next_named < longest.size() && longest[next_named] == i) {
        ++next_named;
        gap = uint32_t(gaps_.size());
        gaps_.push_back({.gap = {.begin = stretch.begin,
                                 .length = stretch.length(),
                                 .where = used_[device].name,
                                 .before = name_of_work(stretch.before),
                                 .after = name_of_work(stretch.after)}});
      }
      const Span* launch =
          stretch.after == kNoIndex ? nullptr : window_.launches.of(timeline_.spans[stretch.after]);
      const int64_t launched =
          launch ? std::clamp(launch->begin, stretch.begin, stretch.end) : stretch.end;
      if (launched > stretch.begin)
        blames_.push_back({.begin = stretch.begin,
                           .end = launched,
                           .track = launch ? uint32_t(launch->track) : uint32_t(window_.main),
                           .device = uint32_t(device),
                           .gap = gap});
      add_cause(device, gap, Cause::launch, stretch.end - launched);
    }
  }

  // what each thread did instead, thread by thread: stretches of two devices may overlap
  void add_causes() {
    std::sort(blames_.begin(), blames_.end(), [&](const Blame& a, const Blame& b) {
      return std::tie(a.track, a.device, a.begin) < std::tie(b.track, b.device, b.begin);
    });
    for (size_t first = 0; first < blames_.size();) {
      const uint32_t track = blames_[first].track, device = blames_[first].device;
      size_t next = first;
      const auto spans = spans_of(timeline_, track);
      const auto mine = [&](size_t i) {
        return i < blames_.size() && blames_[i].track == track && blames_[i].device == device;
      };
      const auto take = [&](int64_t begin, int64_t end, std::span<const uint32_t> stack) {
        while (mine(next) && blames_[next].end <= begin) ++next;
        if (!mine(next) || blames_[next].begin >= end) return;
        const Cause cause = cause_of(timeline_, window_.meanings, spans, stack);
        for (size_t i = next; mine(i) && blames_[i].begin < end; ++i)
          add_cause(device, blames_[i].gap, cause,
                    std::min(end, blames_[i].end) - std::max(begin, blames_[i].begin));
      };
      each_stretch(spans, window_.from, window_.to, take);
      while (mine(first)) ++first;
    }
  }

  void add_cause(size_t device, uint32_t gap, Cause cause, int64_t ns) {
    used_[device].idle[size_t(cause)] += ns;
    if (gap != kNoIndex) gaps_[gap].why[size_t(cause)] += ns;
  }
  std::string name_of_work(uint32_t span) const {
    return span == kNoIndex ? "-" : timeline_.names[timeline_.spans[span].name];
  }

  const TraceWindow& window_;
  const Timeline& timeline_;
  std::vector<UsedTime>& used_;
  std::vector<std::vector<uint32_t>> works_;  // spans of each device, all streams, in order
  std::vector<NamedGap> gaps_;
  std::vector<Blame> blames_;
};

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

void add_devices(const TraceWindow& window, std::vector<UsedTime>& used, std::vector<Gap>& gaps) {
  DevicesInWindow(window, used).add(gaps);
}

}  // namespace maglev
