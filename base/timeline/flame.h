#pragma once
// A trace as pictures of bounded size: what is wider than a pixel is a box, and of what is narrower
// neighbours are one box together. So a view of a million spans has as many boxes as it has room
// for. Threads: functions that are const may be called from several at once.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/timeline/timeline.h"

namespace maglev {

/// One span, or neighbours of one track and depth that are too narrow to be seen. ns since the
/// trace's begin.
struct FlameBox {
  uint16_t track = 0, depth = 0;
  int64_t begin = 0, end = 0;
  uint32_t name = 0;    ///< of neighbours the longest one's
  uint32_t spans = 1;   ///< how many it stands for
  uint32_t found = 0;   ///< of them, how many the search names
  int64_t covered = 0;  ///< ns in which some of them is
  uint32_t first = 0;   ///< of one span: in Timeline::spans
};

struct FlameSelf {
  uint32_t name = 0;
  uint64_t calls = 0;  ///< spans that touch the view
  int64_t self = 0;    ///< ns in the view, without what lies inside
};

struct FlameFound {
  uint64_t spans = 0;  ///< of the whole trace
  int64_t total = 0;   ///< ns of them, each with what lies inside
  bool has_next = false;
  uint16_t track = 0, depth = 0;
  int64_t begin = 0, end = 0;  ///< of the next one
};

class FlameTrace {
 public:
  static constexpr size_t kMostSpans = 4 << 20;
  static constexpr size_t kMostBoxes = 40'000;
  static constexpr uint16_t kDeepest = 255;

  /// Reads the first `most_spans` spans by time. Throws Error as TimelineReader does.
  explicit FlameTrace(const std::string& path, size_t most_spans = kMostSpans);

  const Timeline& timeline() const { return timeline_; }
  /// Of the part that was read.
  int64_t length() const { return end_ - begin_; }
  bool whole() const { return whole_; }
  /// Rows of boxes that a track has.
  uint16_t rows(size_t track) const { return rows_[track]; }
  /// Bytes of memory, about.
  size_t memory() const;

  /// Boxes of [from, to), seen `width` pixels wide; at most kMostBoxes, and coarser for that.
  std::vector<FlameBox> boxes(int64_t from, int64_t to, int64_t width, std::string_view find) const;
  /// The `most` names with the most time of their own in [from, to), on all threads and streams.
  std::vector<FlameSelf> self_times(int64_t from, int64_t to, size_t most) const;
  /// Spans whose name holds `text`, whatever the case of its letters; the next is the first that
  /// begins after `after`, or else the first of all.
  FlameFound find(std::string_view text, int64_t after) const;

 private:
  std::vector<bool> named(std::string_view text) const;
  bool add_boxes(std::vector<FlameBox>& boxes, size_t track, int64_t from, int64_t to,
                 int64_t pixel, const std::vector<bool>& wanted) const;

  Timeline timeline_;
  std::vector<uint16_t> depths_;  ///< of each span
  std::vector<uint16_t> rows_;    ///< of each track
  int64_t begin_ = 0, end_ = 0;   ///< what was read
  bool whole_ = true;
};

}  // namespace maglev
