#include "base/picture/chart.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace maglev {
namespace {

int64_t count(const std::string& text, const std::string& part) {
  int64_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Chart, draws_a_line_and_leaves_out_what_is_not_finite) {
  LineChart chart{.title = "a < b", .x_label = "steps", .y_label = "share"};
  chart.lines.push_back(
      {.name = "one", .points = {{0, 1}, {1, 2}, {2, NAN}, {3, 4}, {4, 5}, {5, NAN}, {6, 1}}});
  const std::string text = svg(chart);
  EXPECT_EQ(count(text, "<path"), 1);
  // the pen is lifted where nothing is known
  const size_t begin = text.find("d=\"") + 3;
  const std::string path = text.substr(begin, text.find('"', begin) - begin);
  EXPECT_EQ(count(path, "M"), 2);
  EXPECT_EQ(count(path, "L"), 2);
  // what stands alone is a dot
  EXPECT_EQ(count(text, "<circle"), 1);
  EXPECT_NE(text.find("a &lt; b"), std::string::npos);
  for (const char* bad : {"nan", "inf"}) EXPECT_EQ(text.find(bad), std::string::npos);
}

TEST(Chart, nothing_is_minus_nothing) {
  LineChart chart{.title = "", .x_label = "", .y_label = ""};
  chart.lines.push_back({.name = "l", .points = {{-1, -20}, {1, 130}}});
  EXPECT_EQ(count(svg(chart), ">-0<"), 0);
  EXPECT_EQ(count(svg(chart), ">0<"), 2);
}

TEST(Chart, the_largest_value_lies_highest_and_a_band_around_its_line) {
  LineChart chart{.title = "", .x_label = "", .y_label = ""};
  chart.lines.push_back({.name = "l", .points = {{0, 0, -1, 1}, {10, 10, 9, 11}}});
  const std::string text = svg(chart);
  // from -1 at the bottom, 276, to 11 at the top, 34
  EXPECT_NE(text.find("M64.0 255.8L510.0 54.2"), std::string::npos) << text;
  EXPECT_NE(text.find("points=\"64.0,235.7 510.0,34.0 510.0,74.3 64.0,276.0 \""), std::string::npos)
      << text;
}

TEST(Chart, a_row_has_its_mean_its_interval_and_its_values) {
  RowChart chart{.title = "t", .x_label = "x"};
  chart.rows.push_back({.name = "known", .value = 1, .low = 0, .high = 2, .values = {0.5, 1.5}});
  chart.rows.push_back({.name = "unknown", .value = NAN, .low = NAN, .high = NAN});
  const std::string text = svg(chart);
  EXPECT_EQ(count(text, "<circle"), 3);
  EXPECT_EQ(count(text, "stroke-opacity"), 1);
  EXPECT_NE(text.find(">unknown<"), std::string::npos);
}

TEST(Chart, a_single_value_is_one_mark_of_its_axis) {
  for (bool log : {false, true}) {
    LineChart chart{.title = "", .x_label = "", .y_label = "", .log_x = log};
    chart.lines.push_back({.name = "l", .points = {{0.25, 16384}}});
    const std::string text = svg(chart);
    EXPECT_EQ(count(text, ">0.25<"), 1) << text;
    EXPECT_EQ(count(text, ">16.384k<"), 1) << text;
    EXPECT_EQ(count(text, "text-anchor=\"middle\" fill=\"#555\">"), 2) << "the mark and the label";
    EXPECT_EQ(count(text, "<circle"), 1);
    EXPECT_EQ(text.find("nan"), std::string::npos);
  }
}

TEST(Chart, a_logarithmic_axis_has_marks_that_find_room) {
  const auto marks = [](double low, double high) {
    LineChart chart{.title = "", .x_label = "", .y_label = "", .log_x = true};
    chart.lines.push_back({.name = "l", .points = {{low, 0}, {high, 1}}});
    return count(svg(chart), "text-anchor=\"middle\"") - 1;
  };
  EXPECT_LE(marks(1e-8, 1e-1), 8);
  EXPECT_GE(marks(1e-8, 1e-1), 7);
  EXPECT_GE(marks(1e-3, 1e-1), 6);
  // between two of 1, 2 and 5
  EXPECT_GE(marks(0.0011, 0.0018), 3);
}

TEST(Chart, lines_that_share_a_colour_are_told_apart_by_dots) {
  LineChart chart{.title = "", .x_label = "", .y_label = ""};
  for (int i = 0; i < 9; ++i)
    chart.lines.push_back({.name = "l", .points = {{0, double(i)}, {1, 1}}});
  // the line and its mark in the legend
  EXPECT_EQ(count(svg(chart), "stroke-dasharray"), 2);
}

TEST(Chart, nothing_to_draw_is_still_a_picture) {
  for (const std::string& text : {svg(LineChart{"t", "x", "y"}), svg(RowChart{"t", "x"})}) {
    EXPECT_EQ(count(text, "</svg>"), 1);
    EXPECT_EQ(text.find("nan"), std::string::npos);
  }
}

}  // namespace
}  // namespace maglev
