#include "base/timeline/flame.h"

#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "tests/folder.h"
#include "tests/trace_text.h"

namespace maglev {
namespace {

// "outer" of 1000 us with `count` spans of 1 us each 2 us in it, on thread 1; "other" on thread 2
std::string trace_of(int count) {
  TraceText trace;
  trace.span("stage", "outer", 1, 1, 0, 2 * count);
  for (int i = 0; i < count; ++i)
    trace.span("kernel_cpu", i % 10 ? "small" : "Tenth", 1, 1, 2 * i, 1);
  trace.span("stage", "other", 1, 2, 10, 20);
  const std::string path = test_folder() + "/flame.json";
  std::ofstream(path) << trace.text();
  return path;
}

TEST(Flame, what_is_wide_enough_is_a_box_of_its_own) {
  const FlameTrace flame(trace_of(500));
  EXPECT_EQ(flame.length(), 1'000'000);
  EXPECT_EQ(flame.rows(0), 2);
  const auto boxes = flame.boxes(0, 10'000, 1000, "");
  // outer, five of the small ones, and of the other thread what begins at the end
  std::map<uint16_t, int> by_depth;
  for (const FlameBox& box : boxes) {
    EXPECT_EQ(box.spans, 1u);
    if (box.track == 0) ++by_depth[box.depth];
  }
  EXPECT_EQ(by_depth[0], 1);
  EXPECT_EQ(by_depth[1], 5);
}

TEST(Flame, what_is_too_narrow_is_one_with_its_neighbours_and_nothing_is_lost) {
  constexpr int kCount = 200'000;
  const FlameTrace flame(trace_of(kCount));
  for (const int64_t width : {100, 1000, 10'000}) {
    const auto boxes = flame.boxes(0, flame.length(), width, "tenth");
    EXPECT_LE(int64_t(boxes.size()), 2 * width + 4);
    uint64_t spans = 0, found = 0;
    int64_t covered = 0, last = -1;
    for (const FlameBox& box : boxes) {
      if (box.depth != 1) continue;
      spans += box.spans, found += box.found, covered += box.covered;
      EXPECT_GT(box.begin, last) << "boxes of a row do not lie over each other";
      last = box.end - 1;
    }
    EXPECT_EQ(spans, uint64_t(kCount));
    EXPECT_EQ(found, uint64_t(kCount / 10));
    EXPECT_EQ(covered, int64_t(kCount) * 1000);
  }
}

TEST(Flame, a_view_has_no_more_boxes_than_it_may) {
  TraceText trace;
  for (int thread = 1; thread <= 60; ++thread)
    for (int i = 0; i < 2000; ++i) trace.span("kernel_cpu", "k", 1, thread, 10 * i, 9);
  const std::string path = test_folder() + "/many.json";
  std::ofstream(path) << trace.text();
  const FlameTrace flame(path);
  const auto boxes = flame.boxes(0, flame.length(), 16'000, "");
  EXPECT_LE(boxes.size(), FlameTrace::kMostBoxes);
  uint64_t spans = 0;
  for (const FlameBox& box : boxes) spans += box.spans;
  EXPECT_EQ(spans, 120'000u);
}

TEST(Flame, self_times_are_those_of_the_view) {
  const FlameTrace flame(trace_of(500));
  const auto times = flame.self_times(0, 100'000, 10);
  std::map<std::string, FlameSelf> by_name;
  for (const FlameSelf& time : times) by_name[flame.timeline().names[time.name]] = time;
  EXPECT_EQ(by_name["outer"].self, 50'000);
  EXPECT_EQ(by_name["small"].self, 45'000);
  EXPECT_EQ(by_name["small"].calls, 45u);
  EXPECT_EQ(by_name["Tenth"].self, 5'000);
  EXPECT_EQ(by_name["other"].self, 20'000);
  EXPECT_EQ(flame.self_times(0, 100'000, 2).size(), 2u);
}

TEST(Flame, a_search_finds_the_next_and_begins_anew_at_the_end) {
  const FlameTrace flame(trace_of(100));
  FlameFound found = flame.find("tENTH", -1);
  EXPECT_EQ(found.spans, 10u);
  EXPECT_EQ(found.total, 10'000);
  EXPECT_EQ(found.begin, 0);
  found = flame.find("tenth", found.begin);
  EXPECT_EQ(found.begin, 20'000);
  EXPECT_EQ(found.depth, 1);
  EXPECT_EQ(flame.find("tenth", 180'000).begin, 0);
  EXPECT_FALSE(flame.find("nothing", -1).has_next);
  EXPECT_EQ(flame.find("", -1).spans, 0u);
}

TEST(Flame, a_long_trace_is_shown_from_its_begin) {
  const FlameTrace flame(trace_of(5000), /*most_spans=*/1000);
  EXPECT_FALSE(flame.whole());
  EXPECT_LT(flame.length(), 10'000'000);
  EXPECT_LE(flame.timeline().spans.size(), 1000u);
  EXPECT_FALSE(flame.boxes(-5, int64_t(1) << 60, 0, "").empty());
}

}  // namespace
}  // namespace maglev
