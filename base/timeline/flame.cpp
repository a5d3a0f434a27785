#include "base/timeline/flame.h"

#include <algorithm>

#include "base/core/words.h"
#include "base/timeline/nesting.h"

namespace maglev {
namespace {

constexpr int64_t kMostPixels = 16'384;
constexpr int64_t kMostLength = int64_t(1) << 58;  // nine years
constexpr int64_t kNarrowPixels = 4;               // how wide neighbours together become

}  // namespace

FlameTrace::FlameTrace(const std::string& path, size_t most_spans) {
  TimelineReader reader(path, {.spans = most_spans});
  reader.next();
  timeline_ = std::move(reader.timeline());
  whole_ = timeline_.last_window();
  begin_ = timeline_.first_ns;
  end_ = std::max(begin_ + 1, std::min({timeline_.end, timeline_.last_ns, begin_ + kMostLength}));

  // what lies in what, by the ends of the spans around
  depths_.resize(timeline_.spans.size());
  rows_.assign(timeline_.tracks.size(), 0);
  std::vector<int64_t> around;
  for (size_t i = 0; i < timeline_.spans.size(); ++i) {
    const Span& span = timeline_.spans[i];
    if (i == 0 || timeline_.spans[i - 1].track != span.track) around.clear();
    while (!around.empty() && around.back() <= span.begin) around.pop_back();
    depths_[i] = uint16_t(std::min<size_t>(around.size(), kDeepest));
    rows_[span.track] = std::max<uint16_t>(rows_[span.track], uint16_t(depths_[i] + 1));
    // one that reaches out of what it began in ends with it
    around.push_back(around.empty() ? span.end : std::min(span.end, around.back()));
  }
}

size_t FlameTrace::memory() const {
  size_t bytes = timeline_.spans.capacity() * sizeof(Span) + depths_.capacity() * sizeof(uint16_t) +
                 timeline_.numbers.capacity() * sizeof(SpanNumbers) +
                 timeline_.counts.capacity() * sizeof(SpanCounts);
  for (const std::string& name : timeline_.names) bytes += name.size() + sizeof name;
  return bytes;
}

std::vector<bool> FlameTrace::named(std::string_view text) const {
  std::vector<bool> wanted(timeline_.names.size());
  const std::string part = lower_case(text);
  for (size_t i = 0; i < wanted.size() && !part.empty(); ++i)
    wanted[i] = lower_case(timeline_.names[i]).find(part) != std::string::npos;
  return wanted;
}

std::vector<FlameBox> FlameTrace::boxes(int64_t from, int64_t to, int64_t width,
                                        std::string_view find) const {
  from = std::clamp<int64_t>(from, 0, length() - 1);
  to = std::clamp(to, from + 1, length());
  const std::vector<bool> wanted = named(find);
  int64_t pixel = std::max<int64_t>(1, (to - from) / std::clamp<int64_t>(width, 1, kMostPixels));
  for (;; pixel *= 2) {
    std::vector<FlameBox> boxes;
    bool fits = true;
    for (size_t track = 0; track < rows_.size() && fits; ++track)
      fits = add_boxes(boxes, track, from, to, pixel, wanted);
    // one box of each row at the least
    if (fits || pixel > to - from) return boxes;
  }
}

bool FlameTrace::add_boxes(std::vector<FlameBox>& boxes, size_t track, int64_t from, int64_t to,
                           int64_t pixel, const std::vector<bool>& wanted) const {
  struct Narrow {
    FlameBox box;
    int64_t longest = 0;
    bool open = false;
  };
  std::vector<Narrow> narrow(rows_[track]);
  const auto give = [&](Narrow& one) {
    if (one.open) boxes.push_back(one.box);
    one.open = false;
  };
  const auto spans = spans_of(timeline_, track);
  const size_t offset = spans.empty() ? 0 : size_t(spans.data() - timeline_.spans.data());
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    const int64_t begin = span.begin - begin_, end = span.end - begin_;
    if (begin >= to) break;
    if (end < from || (end == from && begin < from)) continue;
    Narrow& row = narrow[depths_[offset + i]];
    FlameBox box{.track = uint16_t(track),
                 .depth = depths_[offset + i],
                 .begin = begin,
                 .end = end,
                 .name = span.name,
                 .found = wanted[span.name],
                 .covered = end - begin,
                 .first = uint32_t(offset + i)};
    if (end - begin >= pixel) {
      give(row);
      boxes.push_back(box);
    } else if (row.open && begin - row.box.end < pixel &&
               end - row.box.begin < kNarrowPixels * pixel) {
      row.box.end = std::max(row.box.end, end);
      ++row.box.spans, row.box.found += box.found, row.box.covered += box.covered;
      if (end - begin > row.longest) row.longest = end - begin, row.box.name = span.name;
    } else {
      give(row);
      row = {box, end - begin, true};
    }
    if (boxes.size() > kMostBoxes) return false;
  }
  for (Narrow& row : narrow) give(row);
  return boxes.size() <= kMostBoxes;
}

std::vector<FlameSelf> FlameTrace::self_times(int64_t from, int64_t to, size_t most) const {
  from = std::clamp<int64_t>(from, 0, length() - 1);
  to = std::clamp(to, from + 1, length());
  std::vector<FlameSelf> times(timeline_.names.size());
  for (size_t track = 0; track < rows_.size(); ++track) {
    const auto spans = spans_of(timeline_, track);
    each_stretch(spans, begin_ + from, begin_ + to,
                 [&](int64_t begin, int64_t end, std::span<const uint32_t> stack) {
                   if (!stack.empty()) times[spans[stack.back()].name].self += end - begin;
                 });
    for (const Span& span : spans) {
      if (span.begin - begin_ >= to) break;
      times[span.name].calls += span.end - begin_ > from;
    }
  }
  for (uint32_t name = 0; name < times.size(); ++name) times[name].name = name;
  std::erase_if(times, [](const FlameSelf& time) { return time.self == 0; });
  std::sort(times.begin(), times.end(), [](const FlameSelf& a, const FlameSelf& b) {
    return a.self != b.self ? a.self > b.self : a.name < b.name;
  });
  if (times.size() > most) times.resize(most);
  return times;
}

FlameFound FlameTrace::find(std::string_view text, int64_t after) const {
  const std::vector<bool> wanted = named(text);
  FlameFound found;
  // the next, and the first of all
  size_t next = timeline_.spans.size(), first = next;
  const auto earlier = [&](size_t i, size_t than) {
    return than == timeline_.spans.size() || timeline_.spans[i].begin < timeline_.spans[than].begin;
  };
  for (size_t i = 0; i < timeline_.spans.size(); ++i) {
    const Span& span = timeline_.spans[i];
    if (!wanted[span.name]) continue;
    ++found.spans, found.total += span.length();
    if (earlier(i, first)) first = i;
    if (span.begin - begin_ > after && earlier(i, next)) next = i;
  }
  if (next == timeline_.spans.size()) next = first;
  if (next == timeline_.spans.size()) return found;
  const Span& span = timeline_.spans[next];
  found.has_next = true;
  found.track = span.track, found.depth = depths_[next];
  found.begin = span.begin - begin_, found.end = span.end - begin_;
  return found;
}

}  // namespace maglev
