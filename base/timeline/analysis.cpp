#include "base/timeline/analysis.h"

#include <algorithm>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/timeline/nesting.h"
#include "base/timeline/usage.h"

namespace maglev {
namespace {

constexpr size_t kTopGaps = 10;
constexpr double kReplaySpans = 60'000;
constexpr uint32_t kNoName = 0xffffffff;
constexpr double kShareOff = 0.01;  // of the wall that parts may miss

// the thread that leads: that of the iterations, else the one that is called main, else the one
// whose spans are longest
size_t main_track(const std::vector<Track>& tracks) {
  size_t best = 0;
  const auto rank = [&](size_t i) {
    return std::make_tuple(tracks[i].spans > 0, !tracks[i].stream, tracks[i].iterations,
                           tracks[i].thread_name == "main", tracks[i].top_ns);
  };
  for (size_t i = 1; i < tracks.size(); ++i)
    if (rank(i) > rank(best)) best = i;
  return best;
}

using Totals = std::vector<NamedTime>;

NamedTime& time_of_name(Totals& totals, uint32_t name) {
  if (name >= totals.size()) totals.resize(name + 1);
  return totals[name];
}

// which table a thread's span belongs to; null: none
struct Tables {
  Totals stages, operations, kernels, calls;

  Totals* of(SpanKind kind, bool main) {
    switch (kind) {
      case SpanKind::iteration:
      case SpanKind::stage:
        return main ? &stages : nullptr;
      case SpanKind::operation:
      case SpanKind::copy:
        return &operations;
      case SpanKind::launch:
      case SpanKind::sync:
      case SpanKind::host_copy:
      case SpanKind::allocate:
      case SpanKind::runtime:
      case SpanKind::graph:
        return &calls;
      default:
        return on_device(kind) ? &kernels : nullptr;
    }
  }
};

void add_span(NamedTime& time, const Timeline& timeline, const Span& span, int64_t length,
              bool outer) {
  time.calls += !span.continued;
  if (outer) time.total += length;
  time.longest = std::max(time.longest, length);
  if (!span.numbers || span.continued) return;
  if (is_stage(span.kind)) {
    // of a name inside itself the outer one's
    const SpanCounts& counts = timeline.counts[span.numbers];
    for (size_t i = 0; i < counts.size() && outer; ++i) time.counts[i] += std::max(0.f, counts[i]);
  } else {
    time.bytes += timeline.numbers[span.numbers].bytes;
    time.flops += timeline.numbers[span.numbers].flops;
  }
}

std::vector<NamedTime> sorted(const Totals& totals, const std::vector<std::string>& names) {
  std::vector<NamedTime> rows;
  for (size_t name = 0; name < totals.size(); ++name)
    if (totals[name].calls || totals[name].total)
      rows.push_back(totals[name]), rows.back().name = names[name];
  std::sort(rows.begin(), rows.end(), [](const NamedTime& a, const NamedTime& b) {
    if (a.self != b.self) return a.self > b.self;
    return a.total != b.total ? a.total > b.total : a.name < b.name;
  });
  return rows;
}

// adds windows up
class Analyst {
 public:
  Analyst(const Timeline& first, Analysis& analysis) : analysis_(analysis) {
    analysis_.origin = origin_of(first.file.maglev);
    main_ = main_track(first.tracks);
    const Track& main = first.tracks[main_];
    const bool iterates = main.iterations > 0 && main.iterations_end > main.iterations_begin;
    from_ = iterates ? main.iterations_begin : first.first_ns;
    to_ = iterates ? main.iterations_end : first.last_ns;
    analysis_.iterations = iterates ? main.iterations : 0;
    analysis_.begin = from_, analysis_.wall = to_ - from_;
    several_ = std::any_of(first.tracks.begin(), first.tracks.end(), [&](const Track& track) {
      return !track.stream && track.spans > 0 && track.process != main.process;
    });
    analysis_.main_thread = main.stream ? "none" : thread_name(main);
    if (main.stream) analysis_.untraced = analysis_.wall;
    threads_.resize(first.tracks.size());
    find_processes(first.tracks);
  }

  void add(const Timeline& timeline) {
    const int64_t from = std::max(from_, timeline.begin), to = std::min(to_, timeline.end);
    analysis_.spans += timeline.spans.size(), ++analysis_.windows;
    const Launches launches(timeline);
    for (const auto& [lead, threads] : processes_) add_lead(timeline, lead);
    if (from < to) {
      for (size_t track = 0; track < timeline.tracks.size(); ++track)
        if (!timeline.tracks[track].stream) add_thread(timeline, track, from, to);
      add_device_spans(timeline, launches, from, to);
    }
    add_devices({.timeline = timeline,
                 .meanings = meanings_,
                 .launches = launches,
                 .main = main_,
                 .from = std::min(from, to),
                 .to = to},
                analysis_.devices, analysis_.gaps);
    keep_longest_gaps();
    if (!graph_done_ && from < to) replay(timeline, from, to);
    for (const Span& span : timeline.spans)
      if (on_device(span.kind)) {
        const uint32_t device = timeline.tracks[span.track].device;
        if (device >= device_extent_.size())
          device_extent_.resize(device + 1, {std::numeric_limits<int64_t>::max(),
                                             std::numeric_limits<int64_t>::min()});
        auto& [begin, end] = device_extent_[device];
        begin = std::min(begin, span.begin), end = std::max(end, span.end);
      }
  }

  void finish(const Timeline& last) {
    analysis_.file = last.file;
    analysis_.stages = sorted(tables_.stages, last.names);
    analysis_.operations = sorted(tables_.operations, last.names);
    analysis_.kernels = sorted(tables_.kernels, last.names);
    analysis_.calls = sorted(tables_.calls, last.names);
    for (size_t i = 0; i < device_extent_.size(); ++i)
      analysis_.devices[i].active =
          std::max<int64_t>(0, device_extent_[i].second - device_extent_[i].first);
    for (size_t track = 0; track < threads_.size(); ++track) {
      if (threads_[track].wall == 0) continue;
      threads_[track].name = thread_name(last.tracks[track]);
      analysis_.threads.push_back(threads_[track]);
    }
    for (const auto& [way, copied] : copies_) analysis_.copies.push_back(copied);
    for (auto& [key, allocated] : allocated_) {
      allocated.name = key.first == kNoName ? "(untraced)" : last.names[key.first];
      analysis_.allocations.push_back(allocated);
    }
    std::stable_sort(analysis_.allocations.begin(), analysis_.allocations.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    add_processes(last.tracks);
    doubt(last);
  }

 private:
  // a thread's iterations, else its spans
  static std::pair<int64_t, int64_t> extent(const Track& track) {
    return track.iterations ? std::pair(track.iterations_begin, track.iterations_end)
                            : std::pair(track.begin, track.end);
  }

  // where there are several: the thread that leads each, that of most iterations, else the longest
  void find_processes(const std::vector<Track>& tracks) {
    std::map<std::string, std::vector<size_t>> by_process;
    for (size_t i = 0; i < tracks.size(); ++i)
      if (tracks[i].spans > 0 && !tracks[i].stream) by_process[tracks[i].process].push_back(i);
    if (by_process.size() < 2) return;
    for (const auto& [pid, threads] : by_process)
      processes_[*std::max_element(threads.begin(), threads.end(), [&](size_t a, size_t b) {
        return std::pair(tracks[a].iterations, tracks[a].top_ns) <
               std::pair(tracks[b].iterations, tracks[b].top_ns);
      })] = threads;
  }

  // over its own iterations, which may lie elsewhere than those of the main thread
  void add_lead(const Timeline& timeline, size_t lead) {
    const auto [first, last] = extent(timeline.tracks[lead]);
    const int64_t from = std::max(first, timeline.begin), to = std::min(last, timeline.end);
    if (from >= to) return;
    const auto spans = spans_of(timeline, lead);
    each_stretch(spans, from, to, [&](int64_t begin, int64_t end, std::span<const uint32_t> stack) {
      add_use(leads_[lead], timeline, spans, stack, end - begin);
    });
  }

  void add_processes(const std::vector<Track>& tracks) {
    for (const auto& [lead, threads] : processes_) {
      const Track& track = tracks[lead];
      ProcessTime time{.name = track.process_name, .pid = track.process};
      time.threads = threads.size();
      for (const size_t thread : threads) time.spans += tracks[thread].spans;
      time.iterations = track.iterations;
      const auto [begin, end] = extent(track);
      time.begin = begin, time.wall = end - begin;
      time.busy = leads_[lead].busy, time.waits = leads_[lead].idle_total();
      analysis_.processes.push_back(time);
    }
    std::stable_sort(analysis_.processes.begin(), analysis_.processes.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }

  // busy, idle or untraced, by what lies innermost
  template <class Spans>
  void add_use(UsedTime& use, const Timeline& timeline, const Spans& spans,
               std::span<const uint32_t> stack, int64_t length) {
    if (stack.empty()) {
      use.untraced += length;
      return;
    }
    const SpanKind kind = spans[stack.back()].kind;
    if (kind == SpanKind::wait || kind == SpanKind::sync || kind == SpanKind::host_copy)
      use.idle[size_t(cause_of(timeline, meanings_, spans, stack))] += length;
    else use.busy += length;
  }

  void add_thread(const Timeline& timeline, size_t track, int64_t from, int64_t to) {
    if (timeline.tracks[track].spans == 0) return;
    const auto spans = spans_of(timeline, track);
    UsedTime& use = threads_[track];
    const bool main = track == main_;
    use.wall += to - from;
    auto allocation =
        std::lower_bound(timeline.allocations.begin(), timeline.allocations.end(),
                         std::pair(track, from), [](const Allocation& one, const auto& key) {
                           return std::pair(size_t(one.track), one.at) < key;
                         });
    const int64_t out_of_place = each_stretch(
        spans, from, to, [&](int64_t begin, int64_t end, std::span<const uint32_t> stack) {
          const int64_t length = end - begin;
          add_use(use, timeline, spans, stack, length);
          for (; allocation != timeline.allocations.end() && allocation->track == track &&
                 allocation->at < end;
               ++allocation)
            add_allocation(*allocation, timeline, spans, stack);
          // the innermost operation's and the innermost stage's own time
          if (!stack.empty())
            if (Totals* table = tables_.of(spans[stack.back()].kind, false))
              time_of_name(*table, spans[stack.back()].name).self += length;
          if (!main) return;
          const auto stage = std::find_if(stack.rbegin(), stack.rend(), [&](uint32_t i) {
            return spans[i].kind == SpanKind::stage || spans[i].kind == SpanKind::iteration;
          });
          if (stage != stack.rend())
            time_of_name(tables_.stages, spans[*stage].name).self += length;
          else (stack.empty() ? analysis_.untraced : analysis_.outside) += length;
        });
    if (main) out_of_place_ += out_of_place;

    // calls and whole lengths; of a name inside itself the outer one's
    std::vector<std::pair<int64_t, uint32_t>> around;
    for (size_t i = 0; i < spans.size() && spans[i].begin < to; ++i) {
      const Span& span = spans[i];
      while (!around.empty() && around.back().first <= span.begin) around.pop_back();
      const bool outer = std::none_of(around.begin(), around.end(),
                                      [&](const auto& a) { return a.second == span.name; });
      around.emplace_back(span.end, span.name);
      const int64_t length = std::min(span.end, to) - std::max(span.begin, from);
      if (length < 0 || (length == 0 && span.end == from && span.begin < from)) continue;
      if (Totals* table = tables_.of(span.kind, main))
        add_span(time_of_name(*table, span.name), timeline, span, length, outer);
      if (span.kind == SpanKind::copy) add_copy(timeline, span, length);
      HostSpans& counted = is_stage(span.kind) ? host_stages_ : host_others_;
      ++counted.all, counted.twice += i > 0 && is_again(span, spans[i - 1]);
    }
  }

  void add_device_spans(const Timeline& timeline, const Launches& launches, int64_t from,
                        int64_t to) {
    for (size_t i = 0; i < timeline.spans.size(); ++i) {
      const Span& span = timeline.spans[i];
      if (!on_device(span.kind) || span.end < from || span.begin >= to) continue;
      const int64_t length = std::min(span.end, to) - std::max(span.begin, from);
      NamedTime& time = time_of_name(tables_.kernels, span.name);
      add_span(time, timeline, span, length, true);
      time.self += length;
      if (span.kind == SpanKind::device_copy) add_copy(timeline, span, length);
      ++device_spans_, before_launch_ += launches.begins_before_launch(span);
      unlaunched_ += span.link == 0;
      twice_ += i > 0 && is_again(span, timeline.spans[i - 1]);
    }
  }

  // a stream, or a thread, does one thing at a time: what is there again was written twice
  static bool is_again(const Span& span, const Span& before) {
    return span.length() > 0 && !span.continued && span.track == before.track &&
           span.name == before.name && span.begin == before.begin && span.end == before.end;
  }

  // of what asked, and not of the operation that only asks
  template <class Spans>
  void add_allocation(const Allocation& one, const Timeline& timeline, const Spans& spans,
                      std::span<const uint32_t> stack) {
    const auto only_asks = [&](uint32_t i) {
      const std::string& name = timeline.names[spans[i].name];
      return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") ||
             name.starts_with("aten::resize_");
    };
    auto asks = std::find_if_not(stack.rbegin(), stack.rend(), only_asks);
    if (asks == stack.rend()) asks = stack.rbegin();
    const uint32_t name = stack.empty() ? kNoName : spans[*asks].name;
    AllocatedBytes& allocated = allocated_[{name, one.device}];
    allocated.device = one.device;
    ++allocated.calls, allocated.bytes += one.bytes;
    allocated.largest = std::max(allocated.largest, one.bytes);
  }

  void add_copy(const Timeline& timeline, const Span& span, int64_t length) {
    CopiedBytes& copied = copies_[{span.way, span.pageable}];
    copied.way = span.way, copied.pageable = span.pageable;
    copied.calls += !span.continued, copied.total += length;
    if (span.numbers && !span.continued) copied.bytes += timeline.numbers[span.numbers].bytes;
  }

  void keep_longest_gaps() {
    auto& gaps = analysis_.gaps;
    std::sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) {
      return a.length != b.length ? a.length > b.length : a.begin < b.begin;
    });
    if (gaps.size() > kTopGaps) gaps.resize(kTopGaps);
  }

  // when the span with this number, of all threads in the order of their beginnings, begins; one
  // there is
  static int64_t begin_of_span(const Timeline& timeline, size_t number) {
    std::vector<int64_t> begins;
    begins.reserve(timeline.spans.size());
    for (const Span& span : timeline.spans) begins.push_back(span.begin);
    const auto place = begins.begin() + std::ptrdiff_t(number);
    std::nth_element(begins.begin(), place, begins.end());
    return *place;
  }

  // Findings and the critical path rest on the first iterations that a graph of bounded size holds.
  void replay(const Timeline& timeline, int64_t from, int64_t to) {
    std::vector<std::pair<int64_t, int64_t>> iterations;
    for (const Span& span : spans_of(timeline, main_))
      if (span.kind == SpanKind::iteration && !span.continued && span.end > span.begin &&
          span.begin >= from && span.end <= to)
        iterations.emplace_back(span.begin, span.end);
    const double share =
        std::min(1.0, kReplaySpans / double(std::max<size_t>(1, timeline.spans.size())));
    int64_t until = from + std::max<int64_t>(1, int64_t(share * double(to - from)));
    if (share < 1 && !iterations.empty()) {
      // whole ones, one at least
      int64_t end = iterations.front().second;
      for (const auto& [begin, stop] : iterations)
        if (stop <= until) end = std::max(end, stop);
      until = std::min(end, begin_of_span(timeline, size_t(kReplaySpans)));
    }
    const SpanGraph graph(timeline, meanings_, main_, from, until);
    analysis_.replayed = until - from;
    // one iteration of middle length
    std::erase_if(iterations, [&](const auto& i) { return i.second > until; });
    std::pair<int64_t, int64_t> middle{from, until};
    if (!iterations.empty()) {
      const auto place = iterations.begin() + std::ptrdiff_t(iterations.size() / 2);
      std::nth_element(
          iterations.begin(), place, iterations.end(),
          [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
      middle = *place;
    }
    analysis_.path = graph.critical_path(middle.first, middle.second);
    analysis_.path_length = middle.second - middle.first;
    // rules look at what was added up so far: of a trace in one window, all of it
    Analysis seen = analysis_;
    seen.kernels = sorted(tables_.kernels, timeline.names);
    seen.stages = sorted(tables_.stages, timeline.names);
    for (const auto& [way, copied] : copies_) seen.copies.push_back(copied);
    analysis_.findings = find_bottlenecks(seen, threads_, graph);
    graph_done_ = true;
  }

  void doubt(const Timeline& last) {
    auto& doubts = analysis_.doubts;
    const double wall = double(std::max<int64_t>(1, analysis_.wall));
    if (analysis_.wall <= 0) doubts.push_back("all of it lies at one instant");
    if (last.file.torn)
      doubts.push_back(
          "the file ends in the middle of an event, or is damaged there: whole threads may be "
          "missing, and what is found may be no more than that");
    for (const std::string& torn : analysis_.origin.torn)
      doubts.push_back(torn + ", one of the merged files, ended in the middle of an event");
    if (analysis_.origin.in_windows)
      doubts.push_back(
          "it is made of windows of one process: the time between them, which nobody recorded, "
          "counts as untraced; analyze each window by itself");
    const uint64_t no_events = last.file.broken - last.file.unsound;
    if (double(no_events) > kShareOff * double(last.file.events + last.file.broken))
      doubts.push_back(std::to_string(no_events) + " of its elements are no events");
    if (analysis_.origin.dropped > 0)
      doubts.push_back("the recorder dropped " +
                       counted(int64_t(analysis_.origin.dropped), "span") +
                       "; record fewer iterations, or mode lite");
    if (const uint64_t unsound = last.dropped + last.file.unsound; unsound > 0)
      doubts.push_back(counted(int64_t(unsound), "span has", "spans have") +
                       " no sound thread or length");
    if (last.allocations_dropped > 0)
      doubts.push_back(counted(int64_t(last.allocations_dropped), "allocation") + " found no room");
    if (double(last.unclosed) > kShareOff * double(analysis_.spans))
      doubts.push_back(
          counted(int64_t(last.unclosed), "span begins or ends", "spans begin or end") + " alone");
    // stages, each by its own spans, and what is in none must add up to the wall
    double parts = double(analysis_.outside + analysis_.untraced + out_of_place_);
    for (const NamedTime& stage : analysis_.stages) parts += double(stage.self);
    if (std::abs(parts - wall) > kShareOff * wall && analysis_.wall > 0)
      doubts.push_back(
          printed("stages add up to %.1f %% of the wall time: spans of the main thread lie over "
                  "each other without nesting",
                  100 * parts / wall));
    if (double(before_launch_) > kShareOff * double(device_spans_))
      doubts.push_back(std::to_string(before_launch_) + " of " + std::to_string(device_spans_) +
                       " operations of a device begin before their launch: clocks disagree");
    if (double(unlaunched_) > kShareOff * double(device_spans_))
      doubts.push_back(std::to_string(unlaunched_) + " of " + std::to_string(device_spans_) +
                       " operations of a device have no launch: what the host waits for and what "
                       "a device is idle for is not known");
    if (double(twice_) > kShareOff * double(device_spans_))
      doubts.push_back(std::to_string(twice_) + " of " + std::to_string(device_spans_) +
                       " operations of a device are there twice: their times count twice");
    const auto doubt_twice = [&](const HostSpans& spans, const char* what) {
      if (double(spans.twice) > kShareOff * double(spans.all))
        doubts.push_back(std::to_string(spans.twice) + " of " + std::to_string(spans.all) + " " +
                         what);
    };
    doubt_twice(host_stages_,
                "iterations and stages of threads are there twice: what is said of one iteration, "
                "or of one call, is of half of it");
    doubt_twice(host_others_,
                "operations and calls of threads are there twice: they count as two calls");
  }

  Analysis& analysis_;
  Meanings meanings_;
  Tables tables_;
  // of several processes, which one's it is
  std::string thread_name(const Track& track) const {
    return several_ ? track.process + ": " + track.name() : track.name();
  }

  size_t main_ = 0;
  bool several_ = false;
  int64_t from_ = 0, to_ = 0, out_of_place_ = 0;
  uint64_t device_spans_ = 0, before_launch_ = 0, unlaunched_ = 0, twice_ = 0;
  // spans of threads, and how many of them are there again
  struct HostSpans {
    uint64_t all = 0, twice = 0;
  };
  HostSpans host_stages_, host_others_;
  std::vector<UsedTime> threads_;
  // by the thread that leads: the threads of its process, and its use
  std::map<size_t, std::vector<size_t>> processes_;
  std::map<size_t, UsedTime> leads_;
  std::map<std::pair<CopyWay, bool>, CopiedBytes> copies_;
  std::map<std::pair<uint32_t, bool>, AllocatedBytes> allocated_;  ///< by name and memory
  std::vector<std::pair<int64_t, int64_t>> device_extent_;
  bool graph_done_ = false;
};

}  // namespace

Analysis analyse_trace(const std::string& path, TimelineLimits limits) {
  TimelineReader reader(path, limits);
  Analysis analysis;
  reader.next();
  Analyst analyst(reader.timeline(), analysis);
  do analyst.add(reader.timeline());
  while (reader.next());
  analyst.finish(reader.timeline());
  return analysis;
}

}  // namespace maglev
