#include "base/timeline/replay.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/core/error.h"
#include "base/timeline/nesting.h"

namespace maglev {
namespace {

// ns: an operation that launches nothing and is as long is work of its own, no part of launching
constexpr int64_t kLeastHostWork = 50'000;

// which spans of a thread give a device something to do, by themselves or by what lies in them
std::vector<bool> launching(std::span<const Span> spans) {
  std::vector<bool> launches(spans.size());
  std::vector<uint32_t> around;
  const auto close = [&](int64_t time) {
    while (!around.empty() && spans[around.back()].end <= time) {
      const bool inner = launches[around.back()];
      around.pop_back();
      if (inner && !around.empty()) launches[around.back()] = true;
    }
  };
  for (uint32_t i = 0; i < spans.size(); ++i) {
    close(spans[i].begin);
    const SpanKind kind = spans[i].kind;
    launches[i] =
        kind == SpanKind::launch || kind == SpanKind::graph || kind == SpanKind::host_copy;
    around.push_back(i);
  }
  close(std::numeric_limits<int64_t>::max());
  return launches;
}

}  // namespace

SpanGraph::SpanGraph(const Timeline& timeline, Meanings& meanings, size_t main, int64_t from,
                     int64_t to)
    : timeline_(timeline), meanings_(meanings), from_(from), to_(to), main_(main) {
  for (size_t track = 0; track < timeline.tracks.size(); ++track)
    timeline.tracks[track].stream ? add_stream(track) : add_thread(track);

  // by end: of those that end together a wait is last, for it may wait for them
  std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
    if (a.end != b.end) return a.end < b.end;
    if ((a.kind == Kind::wait) != (b.kind == Kind::wait)) return b.kind == Kind::wait;
    return a.begin < b.begin;
  });
  by_track_.resize(timeline.tracks.size());
  ends_.resize(timeline.tracks.size());
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    auto& row = by_track_[nodes_[i].track];
    if (!row.empty()) nodes_[i].before = row.back();
    row.push_back(i);
    if (nodes_[i].kind != Kind::device && nodes_[i].span != kNone) {
      const uint32_t link = timeline.spans[nodes_[i].span].link;
      if (link) launches_.emplace_back(link, i);
    }
  }
  // of the stretches that one launch was cut into, and of launches with one number, in time
  std::sort(launches_.begin(), launches_.end());
  connect(main);
}

void SpanGraph::add_thread(size_t track) {
  const auto spans = spans_of(timeline_, track);
  if (spans.empty()) return;
  const bool of_main = timeline_.tracks[track].process == timeline_.tracks[main_].process;
  // Threads without a span wait for the main thread. That one says itself when it waits, where the
  // trace is ours; PyTorch's waits for autograd's thread in a stage, or in no span at all.
  const bool may_wait = track == main_ && timeline_.file.maglev.empty();
  const std::vector<bool> launches = launching(spans);
  each_stretch(spans, from_, to_, [&](int64_t begin, int64_t end, std::span<const uint32_t> stack) {
    Node node{.begin = begin, .end = end, .track = uint16_t(track)};
    node.bits = meanings_.of(timeline_, spans, stack);
    // what lies in it launches nothing either, however short it is
    const auto on_host = std::find_if(stack.begin(), stack.end(), [&](uint32_t i) {
      return spans[i].kind == SpanKind::operation && !launches[i];
    });
    if (on_host != stack.end() && spans[*on_host].length() >= kLeastHostWork)
      node.bits |= meaning::host_work;
    if (!stack.empty()) {
      const Span& span = spans[stack.back()];
      node.name = span.name;
      node.span = uint32_t(&span - timeline_.spans.data());
      const bool waits = span.kind == SpanKind::wait || span.kind == SpanKind::sync ||
                         span.kind == SpanKind::host_copy;
      if (waits || (may_wait && span.kind <= SpanKind::stage)) node.kind = Kind::wait;
    } else if (may_wait || (of_main && track != main_)) {
      node.kind = Kind::wait;
    }
    nodes_.push_back(node);
  });
}

void SpanGraph::add_stream(size_t track) {
  const auto spans = spans_of(timeline_, track);
  int64_t free_from = from_;
  for (const Span& span : spans) {
    // a stream does one thing at a time: clocks that say otherwise are bent by what is too much
    const int64_t begin = std::max(span.begin, free_from),
                  end = std::max(begin, std::min(span.end, to_));
    if (!on_device(span.kind) || span.end <= from_ || span.begin >= to_) continue;
    Node node{.begin = begin, .end = end, .track = uint16_t(track), .kind = Kind::device};
    node.bits = meanings_.of(timeline_, span);
    node.name = span.name;
    node.span = uint32_t(&span - timeline_.spans.data());
    nodes_.push_back(node);
    free_from = end;
  }
}

// the last of `ended` (by end) whose end lies in (after, until]
uint32_t SpanGraph::last_end(const std::vector<uint32_t>& ended, int64_t after,
                             int64_t until) const {
  const auto behind = std::partition_point(ended.begin(), ended.end(),
                                           [&](uint32_t i) { return nodes_[i].end <= until; });
  if (behind == ended.begin() || nodes_[behind[-1]].end <= after) return kNone;
  return behind[-1];
}

// what a thread is at: the node with begin <= time < end, or that ends at `time` last of all
uint32_t SpanGraph::node_at(size_t track, int64_t time) const {
  const auto& row = by_track_[track];
  const auto place = std::partition_point(row.begin(), row.end(),
                                          [&](uint32_t i) { return nodes_[i].end <= time; });
  return place == row.end() ? (row.empty() ? kNone : row.back()) : *place;
}

// ns in which a thread has spans and does not wait
int64_t SpanGraph::busy(size_t track, int64_t begin, int64_t end) const {
  const auto& row = by_track_[track];
  int64_t sum = 0;
  for (auto place = std::partition_point(row.begin(), row.end(),
                                         [&](uint32_t i) { return nodes_[i].end <= begin; });
       place != row.end() && nodes_[*place].begin < end; ++place)
    if (nodes_[*place].kind == Kind::work)
      sum += std::min(end, nodes_[*place].end) - std::max(begin, nodes_[*place].begin);
  return sum;
}

void SpanGraph::wait_for(Node& node, uint32_t last) {
  if (last == kNone) return;
  if (node.edge_count == 0) node.edges = uint32_t(edges_.size());
  edges_.push_back(last), ++node.edge_count;
}

// of what a wait waits for, what ended last; none: it waits for nothing known
uint32_t SpanGraph::last_of(const Node& node) const {
  uint32_t last = kNone;
  for (uint32_t e = node.edges; e < node.edges + node.edge_count; ++e)
    if (last == kNone || nodes_[edges_[e]].end > nodes_[last].end) last = edges_[e];
  return last;
}

void SpanGraph::connect(size_t main) {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const bool device = nodes_[i].kind == Kind::device;
    device ? connect_device(i) : connect_thread(i, main);
    if (device) device_ends_.push_back(i);
    if (device || (nodes_[i].kind == Kind::work && nodes_[i].span != kNone))
      ends_[nodes_[i].track].push_back(i);
  }
}

void SpanGraph::connect_thread(uint32_t i, size_t main) {
  Node& node = nodes_[i];
  if (node.kind != Kind::wait) return;
  const Span* const span = node.span == kNone ? nullptr : &timeline_.spans[node.span];
  const bool says_so = span && span->kind > SpanKind::stage;
  const auto& tracks = timeline_.tracks;
  int64_t anchor = node.begin;
  if (span && span->kind == SpanKind::host_copy) {
    // its own copy, where it stays for that
    const uint32_t last = last_end(device_ends_, node.begin, node.end);
    if (last != kNone && span->link && timeline_.spans[nodes_[last].span].link == span->link)
      wait_for(node, last);
  } else if (span && (span->kind == SpanKind::sync || span->on == WaitOn::device)) {
    // what each stream has done by then
    for (size_t track = 0; track < ends_.size(); ++track)
      if (tracks[track].stream) wait_for(node, last_end(ends_[track], from_ - 1, node.end));
  } else if (node.track == main || tracks[node.track].process != tracks[main].process) {
    // what the other threads have done by then
    const bool for_pool = span && span->kind == SpanKind::wait && span->on == WaitOn::pool;
    const bool for_others = span && (span->on == WaitOn::io || span->on == WaitOn::processes);
    for (size_t track = 0; track < ends_.size() && !for_others; ++track) {
      if (track == node.track || tracks[track].stream ||
          tracks[track].process != tracks[node.track].process)
        continue;
      // where nothing says that it waits, the other must have been at it for most of the time
      if (!says_so && 2 * busy(track, node.begin, node.end) < node.end - node.begin) continue;
      wait_for(node, last_end(ends_[track], for_pool ? from_ - 1 : node.begin, node.end));
    }
  } else if (node.end < to_) {
    // woken where the main thread has come to; one that waits was at it when its wait began
    const uint32_t there = node_at(main, node.end);
    // the node before must be done in the order of replay
    if (there != kNone && (nodes_[there].before == kNone || nodes_[there].before < i)) {
      const Node& at_main = nodes_[there];
      node.cause = there;
      node.offset = at_main.kind == Kind::wait ? 0
                                               : std::clamp<int64_t>(node.end - at_main.begin, 0,
                                                                     at_main.end - at_main.begin);
      anchor = at_main.begin + node.offset;
    }
  }
  if (const uint32_t last = last_of(node); last != kNone) anchor = nodes_[last].end;
  else if (node.cause == kNone && !says_so) node.kind = Kind::work;
  // nothing found: it stays as long as it is
  node.lag = node.end - std::max(node.begin, anchor);
}

void SpanGraph::connect_device(uint32_t i) {
  Node& node = nodes_[i];
  int64_t ready = node.before == kNone ? from_ : nodes_[node.before].end;
  // its launch: the last one of that number that began before it
  const uint32_t link = timeline_.spans[node.span].link;
  if (link) {
    auto launch = std::partition_point(launches_.begin(), launches_.end(), [&](const auto& l) {
      return l.first < link || (l.first == link && nodes_[l.second].begin <= node.begin);
    });
    if (launch != launches_.begin() && launch[-1].first == link) {
      const Node& from = nodes_[launch[-1].second];
      if (from.before == kNone || from.before < i) {
        node.cause = launch[-1].second;
        node.offset = std::min(node.begin - from.begin, from.end - from.begin);
        ready = std::max(ready, from.begin + node.offset);
      }
    }
  }
  // held up by what another stream did, an event or a device that was full
  if (ready < node.begin) {
    const uint32_t last = last_end(device_ends_, ready, node.begin);
    if (last != kNone) node.other = last, ready = nodes_[last].end;
  }
  node.lag = node.begin - ready;
}

int64_t SpanGraph::length(const Free& free) const {
  struct Time {
    int64_t begin, end;
  };
  std::vector<Time> times(nodes_.size());
  int64_t last = from_;
  const bool free_launches = free(meaning::launch);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const int64_t start = node.before == kNone ? from_ : times[node.before].end;
    const bool gone = free(node.bits);
    // where the cause has come to
    int64_t anchor = start;
    if (node.cause != kNone) {
      const Node& cause = nodes_[node.cause];
      const int64_t cause_start = cause.before == kNone ? from_ : times[cause.before].end;
      anchor = cause_start + (free(cause.bits) ? 0 : node.offset);
    }
    Time& time = times[i];
    switch (node.kind) {
      case Kind::work:
        time = {start, start + (gone ? 0 : node.end - node.begin)};
        break;
      case Kind::wait:
        for (uint32_t e = node.edges; e < node.edges + node.edge_count; ++e)
          anchor = std::max(anchor, times[edges_[e]].end);
        time = {start, gone ? start : std::max(start, anchor) + node.lag};
        break;
      case Kind::device:
        time.begin = std::max(start, anchor);
        if (node.other != kNone) time.begin = std::max(time.begin, times[node.other].end);
        // what a launch takes to arrive goes with it
        if (!(free_launches && node.cause != kNone)) time.begin += node.lag;
        time.end = time.begin + (gone ? 0 : node.end - node.begin);
        break;
    }
    // a thread that does nothing at the end holds nobody up
    if (node.span != kNone || (node.track == main_ && node.end < to_))
      last = std::max(last, time.end);
  }
  return last - from_;
}

int64_t SpanGraph::time_on(size_t track, const Free& of) const {
  int64_t sum = 0;
  for (const uint32_t i : by_track_[track])
    if (nodes_[i].kind == Kind::work && of(nodes_[i].bits)) sum += nodes_[i].end - nodes_[i].begin;
  return sum;
}

int64_t SpanGraph::time_of_any(const Free& of) const {
  std::vector<std::pair<int64_t, int64_t>> stretches;
  for (const Node& node : nodes_)
    if (node.kind == Kind::work && of(node.bits)) stretches.emplace_back(node.begin, node.end);
  std::sort(stretches.begin(), stretches.end());
  int64_t sum = 0, until = std::numeric_limits<int64_t>::min();
  for (const auto& [begin, end] : stretches)
    if (end > until) sum += end - std::max(begin, until), until = end;
  return sum;
}

int64_t SpanGraph::time_on_main(const Free& of) const {
  int64_t sum = 0;
  for (const uint32_t i : by_track_[main_])
    if (of(nodes_[i].bits)) sum += nodes_[i].end - nodes_[i].begin;
  return sum;
}

int64_t SpanGraph::time_on_devices(const Free& of) const {
  int64_t sum = 0;
  for (const Node& node : nodes_)
    if (node.kind == Kind::device && of(node.bits)) sum += node.end - node.begin;
  return sum;
}

uint64_t SpanGraph::count(const Free& of) const {
  uint64_t count = 0;
  for (const Node& node : nodes_)
    count += node.span != kNone && of(node.bits) && node.begin == timeline_.spans[node.span].begin;
  return count;
}

PathPart SpanGraph::largest(const Free& of) const {
  std::map<uint32_t, PathPart> parts;
  for (const Node& node : nodes_) {
    if (node.span == kNone || !of(node.bits)) continue;
    PathPart& part = parts[node.name];
    part.length += node.end - node.begin, ++part.pieces;
    part.device = node.kind == Kind::device;
  }
  PathPart best;
  for (auto& [name, part] : parts)
    if (part.length > best.length) best = part, best.name = timeline_.names[name];
  return best;
}

std::vector<PathPart> SpanGraph::critical_path(int64_t since, int64_t until) const {
  std::map<std::pair<bool, std::string>, PathPart> parts;
  const auto add = [&](const std::string& name, bool device, int64_t length) {
    if (length <= 0) return;
    PathPart& part = parts[{device, name}];
    part.name = name, part.device = device, part.length += length, ++part.pieces;
  };
  const auto name_of_node = [&](const Node& node) {
    return node.name == kNone ? std::string("untraced") : timeline_.names[node.name];
  };
  uint32_t i = node_at(main_, until - 1);
  int64_t now = until;
  // each turn goes to a node that stands earlier in the order of replay
  while (i != kNone && now > since) {
    const Node& node = nodes_[i];
    const std::string name = name_of_node(node);
    const int64_t before = node.before == kNone ? since : nodes_[node.before].end;
    const uint32_t waited = last_of(node);
    const int64_t cause = waited != kNone       ? nodes_[waited].end
                          : node.cause == kNone ? std::numeric_limits<int64_t>::min()
                                                : nodes_[node.cause].begin + node.offset;
    uint32_t next = node.before, through = kNone;
    int64_t then = node.begin;
    if (node.kind == Kind::wait && cause > node.begin && cause <= now) {
      then = cause, next = waited, through = waited == kNone ? node.cause : kNone;
      add(name, false, now - std::max(then, since));
    } else if (node.kind == Kind::device) {
      add(name, true, now - std::max(node.begin, since));
      // what it waited for last, then the way from there
      const int64_t other =
          node.other == kNone ? std::numeric_limits<int64_t>::min() : nodes_[node.other].end;
      then = std::max({before, cause, other});
      if (then == other) next = node.other;
      else if (then == cause) through = node.cause;
      if (now > since && node.begin > since)
        add("(launched, not begun)", true, node.begin - std::max(then, since));
    } else {
      add(name, false, now - std::max(then, since));
    }
    now = std::min(now, then);
    // a cause may end after its effect, and wait for it: from it the way goes on at its begin
    if (through != kNone) {
      const Node& from = nodes_[through];
      add(name_of_node(from), false, now - std::max(from.begin, since));
      now = std::min(now, from.begin), next = from.before;
    }
    i = next;
  }
  std::vector<PathPart> path;
  for (auto& [key, part] : parts) path.push_back(std::move(part));
  std::sort(path.begin(), path.end(), [](const PathPart& a, const PathPart& b) {
    return a.length != b.length ? a.length > b.length : a.name < b.name;
  });
  return path;
}

}  // namespace maglev
