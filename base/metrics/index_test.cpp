#include "base/metrics/index.h"

#include <cmath>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/folder.h"

namespace maglev {
namespace {

std::string row_text(int64_t step, double value) {
  return "{\"step\": " + std::to_string(step) +
         ", \"seconds\": " + std::to_string(0.5 * double(step)) +
         ", \"return_mean\": " + std::to_string(value) + "}\n";
}

double wave(int64_t i) { return std::sin(double(i) / 777) + (i % 5000 == 77 ? 100 : 0); }

class IndexedFile : public testing::Test {
 protected:
  IndexedFile() {
    static int number = 0;
    path_ = test_folder() + "/index-" + std::to_string(number++);
  }
  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  void append_waves(int64_t begin, int64_t end) {
    std::ofstream file(path_, std::ios::app);
    for (int64_t i = begin; i < end; ++i) file << row_text(i, wave(i));
  }
  std::string path_;
};

int64_t rows_of(const std::vector<CurvePoint>& points) {
  int64_t rows = 0;
  for (const CurvePoint& p : points) rows += p.rows;
  return rows;
}

void expect_equal(const std::vector<CurvePoint>& a, const std::vector<CurvePoint>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].rows, b[i].rows);
    EXPECT_NEAR(a[i].step, b[i].step, 1e-9 * a[i].step);
    EXPECT_EQ(a[i].low, b[i].low);
    EXPECT_EQ(a[i].high, b[i].high);
    EXPECT_NEAR(a[i].mean, b[i].mean, 1e-9);
  }
}

TEST_F(IndexedFile, few_rows_are_kept_as_they_are) {
  append_waves(0, 500);
  MetricIndex index(path_);
  index.read(10);
  const auto points = index.curve("return_mean", index.point_bytes(2048));
  ASSERT_EQ(points.size(), 500u);
  for (int64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(points[size_t(i)].step, double(i));
    EXPECT_EQ(points[size_t(i)].seconds, 0.5 * double(i));
    EXPECT_NEAR(points[size_t(i)].high, wave(i), 1e-6);
  }
}

TEST_F(IndexedFile, many_rows_keep_their_least_greatest_and_mean) {
  constexpr int64_t kRows = 50000;
  append_waves(0, kRows);
  MetricIndex index(path_);
  index.read(100);
  const auto points = index.curve("return_mean", index.point_bytes(300));
  EXPECT_LE(points.size(), 300u);
  EXPECT_EQ(rows_of(points), kRows);
  // every peak of one row is there, at its point
  int64_t first = 0;
  for (const CurvePoint& p : points) {
    double low = 1e9, high = -1e9, sum = 0;
    for (int64_t i = first; i < first + p.rows; ++i)
      low = std::min(low, wave(i)), high = std::max(high, wave(i)), sum += wave(i);
    EXPECT_NEAR(p.low, low, 1e-6);
    EXPECT_NEAR(p.high, high, 1e-6);
    EXPECT_NEAR(p.mean, sum / double(p.rows), 1e-6);
    EXPECT_DOUBLE_EQ(p.step, double(first) + double(p.rows - 1) / 2);
    first += p.rows;
  }
}

TEST_F(IndexedFile, a_growing_file_gives_what_it_gives_when_read_at_once) {
  MetricIndex grown(path_);
  grown.read(1);
  EXPECT_EQ(grown.rows(), 0);
  for (int64_t begin = 0; begin < 20000; begin += 1250) {
    append_waves(begin, begin + 1250);
    grown.read(10);
  }
  MetricIndex whole(path_);
  whole.read(100);
  ASSERT_EQ(grown.point_bytes(512), whole.point_bytes(512));
  expect_equal(grown.curve("return_mean", grown.point_bytes(512)),
               whole.curve("return_mean", whole.point_bytes(512)));
}

TEST_F(IndexedFile, points_before_the_end_are_final) {
  append_waves(0, 3000);
  MetricIndex index(path_);
  index.read(10);
  const uint64_t each = index.point_bytes(100), final_bytes = index.final_until(each);
  const auto before = index.curve("return_mean", each);
  append_waves(3000, 3100);
  index.read(10);
  ASSERT_EQ(index.point_bytes(100), each);
  auto joined = before;
  std::erase_if(joined, [](const CurvePoint& p) { return p.may_change; });
  const auto more = index.curve("return_mean", each, final_bytes);
  joined.insert(joined.end(), more.begin(), more.end());
  expect_equal(joined, index.curve("return_mean", each));
}

TEST_F(IndexedFile, a_torn_line_is_waited_for_and_a_damaged_one_is_named) {
  append(row_text(1, 1) + "{\"step\": 2, \"retu\x01\n" + row_text(3, 3) + "{\"step\": 4, \"retur");
  MetricIndex index(path_);
  index.read(1);
  EXPECT_EQ(index.rows(), 2);
  EXPECT_EQ(index.damaged(), 1);
  EXPECT_EQ(index.named().at(0).number, 2);
  EXPECT_TRUE(index.named().at(0).text.starts_with("{\"step\": 2")) << index.named().at(0).text;
  EXPECT_EQ(index.read_share(), 1);
  append("n_mean\": 4}\n");
  index.read(1);
  EXPECT_EQ(index.rows(), 3);
  EXPECT_EQ(index.damaged(), 1);
}

TEST_F(IndexedFile, a_file_that_is_replaced_or_cut_is_read_anew) {
  append_waves(0, 100);
  MetricIndex index(path_);
  index.read(1);
  std::filesystem::resize_file(path_, 100);
  index.read(1);
  EXPECT_EQ(index.restarts(), 1);
  EXPECT_LT(index.rows(), 3);
  write_atomic(path_, row_text(5, 5) + row_text(6, 6) + row_text(7, 7) + row_text(8, 8));
  index.read(1);
  EXPECT_EQ(index.rows(), 4);
  EXPECT_EQ(index.curve("return_mean", index.point_bytes(2048)).at(0).step, 5);
  remove_path(path_);
  index.read(1);
  EXPECT_EQ(index.rows(), 0);
}

TEST_F(IndexedFile, a_part_has_the_lines_that_begin_in_it) {
  append_waves(0, 2000);
  MetricIndex whole(path_);
  whole.read(10);
  const Stretch part = whole.where("seconds", 400, 500);
  MetricIndex index(path_, part);
  index.read(10);
  const auto points = index.curve("return_mean", index.point_bytes(4096));
  EXPECT_LE(points.front().step, 800);
  EXPECT_GE(points.front().step, 770);
  EXPECT_GE(points.back().step, 1000);
  EXPECT_LE(points.back().step, 1030);
  EXPECT_EQ(index.damaged(), 0);
  // neighbours share no line
  MetricIndex before(path_, {.begin = 0, .end = part.begin}), after(path_, {.begin = part.end});
  before.read(10), after.read(10);
  EXPECT_EQ(before.rows() + index.rows() + after.rows(), 2000);
}

TEST_F(IndexedFile, a_large_file_is_seen_whole_before_it_is_read) {
  constexpr int64_t kRows = 700000;
  append_waves(0, kRows);
  MetricIndex index(path_);
  index.read(0);
  EXPECT_LT(index.read_share(), 0.1);
  const uint64_t each = index.point_bytes(400);
  auto points = index.curve("return_mean", each);
  EXPECT_GT(points.size(), 200u);
  EXPECT_GT(points.back().step, 0.99 * kRows);
  for (const CurvePoint& p : points) ASSERT_NEAR(p.mean, std::sin(p.step / 777), 1.0) << p.step;
  // exact figures take the samples' place, also while the file grows beyond what it was
  append_waves(kRows, 2 * kRows);
  while (index.read_share() < 1) index.read(0.05);
  EXPECT_EQ(index.rows(), 2 * kRows);
  MetricIndex whole(path_);
  whole.read(1000);
  expect_equal(index.curve("return_mean", index.point_bytes(400)),
               whole.curve("return_mean", whole.point_bytes(400)));
  EXPECT_EQ(rows_of(whole.curve("return_mean", whole.point_bytes(400))), 2 * kRows);
}

// a file of the same name, as large or larger, may be given the number that was the old one's
TEST_F(IndexedFile, another_file_in_the_same_place_is_read_anew) {
  append(row_text(1, 1) + row_text(2, 2));
  MetricIndex index(path_);
  index.read(1);
  std::ofstream(path_, std::ios::in | std::ios::out) << row_text(3, 3);
  append(row_text(4, 4));
  index.read(1);
  EXPECT_EQ(index.rows(), 3);
  EXPECT_EQ(index.restarts(), 1);
  EXPECT_EQ(index.curve("return_mean", index.point_bytes(400)).front().mean, 3);
  // one that only grows is not
  append(row_text(5, 5));
  index.read(1);
  EXPECT_EQ(index.rows(), 4);
  EXPECT_EQ(index.restarts(), 1);
}

TEST_F(IndexedFile, a_line_without_end_takes_no_memory) {
  append(row_text(1, 1) + std::string(40 << 20, 'x') + "\n" + row_text(2, 2));
  MetricIndex index(path_);
  do index.read(1);
  while (index.read_share() < 1);
  EXPECT_EQ(index.rows(), 2);
  EXPECT_EQ(index.damaged(), 1);
}

}  // namespace
}  // namespace maglev
