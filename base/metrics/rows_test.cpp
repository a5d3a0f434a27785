#include "base/metrics/rows.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "tests/folder.h"

namespace maglev {
namespace {

constexpr const char* kLine =
    R"({"step": 8192, "seconds": 52.244912743000896, "return_mean": null, "loss/policy": -2.4e-06, "events/food": 0})";

TEST(MetricReader, reads_names_and_numbers_in_order) {
  MetricReader reader;
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(reader.read(kLine));
    EXPECT_EQ(reader.step(), 8192);
    EXPECT_EQ(reader.value("seconds"), 52.244912743000896);
    EXPECT_TRUE(std::isnan(reader.value("return_mean")) && reader.has("return_mean"));
    EXPECT_EQ(reader.value("loss/policy"), -2.4e-06);
    EXPECT_FALSE(reader.has("loss/value"));
    EXPECT_EQ(reader.figures().size(), 5u);
  }
  // an event between rows, then the next row
  ASSERT_TRUE(reader.read(R"({"step": 9, "seconds": 1, "eval/return_mean": 3, "note": "x"})"));
  EXPECT_EQ(reader.value("eval/return_mean"), 3);
  EXPECT_FALSE(reader.has("note"));
  ASSERT_TRUE(reader.read(kLine));
  EXPECT_EQ(reader.columns()[5], "eval/return_mean");
}

TEST(MetricReader, counts_what_is_no_row) {
  const std::string folder = test_folder(), path = folder + "/" + kMetricsFile;
  remove_path(path);
  EXPECT_EQ(each_metric_row(folder, [](const MetricReader&) {}), 0);
  // one line is damaged, and a kill cut the last one off
  write_atomic(path, "{\"step\": 1}\n{\"step\": 2, \"retu\n{\"step\": 3}\n{\"step\": 4");
  int rows = 0;
  EXPECT_EQ(each_metric_row(folder, [&](const MetricReader&) { ++rows; }), 1);
  EXPECT_EQ(rows, 2);
}

TEST(MetricReader, knows_where_rows_end) {
  const std::string folder = test_folder(), path = folder + "/" + kMetricsFile;
  const auto ends = [&](const std::string& text) {
    write_atomic(path, text);
    return last_metric_row(folder);
  };
  remove_path(path);
  EXPECT_EQ(last_metric_row(folder).step, -1);
  EXPECT_EQ(ends("").step, -1);
  EXPECT_TRUE(std::isnan(ends("{\"step\": 5, \"return_mean\": null}\n").return_mean));
  // events have no return, however many there are behind the last row; what was cut off counts not
  std::string text = "{\"step\": 1, \"return_mean\": 2}\n{\"step\": 64, \"return_mean\": 7.5}\n";
  for (int i = 0; i < 5000; ++i) text += "{\"step\": 65, \"seconds\": 1, \"eval/x\": 3}\n";
  const LastRow last = ends(text + "{\"step\": 99, \"return_mean\": 1");
  EXPECT_EQ(last.step, 65);
  EXPECT_EQ(last.return_mean, 7.5);
}

TEST(MetricReader, tells_rows_from_what_is_none) {
  MetricReader reader;
  ASSERT_TRUE(reader.read(kLine));
  const std::string line = kLine;
  for (size_t cut = 0; cut < line.size(); ++cut)
    EXPECT_FALSE(reader.read(line.substr(0, cut))) << line.substr(0, cut);
  for (const char* none :
       {R"({"step": "8"})", R"({"step": 1.5})", R"({"seconds": 1})", "[1]", "", R"({"step": 01})",
        R"({"step": 1.})", R"({"step": 1e})", R"({"step": nan})", R"({"step": 1e999})",
        R"({"step": 1,})", R"({"step": 1} x)"})
    EXPECT_FALSE(reader.read(none)) << none;
  EXPECT_TRUE(reader.read(kLine));
}

// the fast way against the plain parser, on lines with a few bytes changed
TEST(MetricReader, accepts_what_a_json_parser_accepts) {
  std::mt19937 random(1);
  const std::string with = "0123456789.-+eE,:\"{}[] nul\\\t\x80";
  int rows = 0;
  for (int i = 0; i < 20000; ++i) {
    MetricReader reader;
    std::string line = kLine;
    for (size_t k = random() % 3; k-- > 0;)
      line[random() % line.size()] = with[random() % with.size()];
    ASSERT_TRUE(reader.read(kLine));
    const bool is_row = reader.read(line);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const bool wanted = json.is_object() && json.contains("step") && json["step"].is_number() &&
                        json["step"].get<double>() == std::floor(json["step"].get<double>());
    ASSERT_EQ(is_row, wanted) << line;
    if (!wanted) continue;
    ++rows;
    for (const auto& [name, value] : json.items()) {
      if (value.is_number()) {
        ASSERT_EQ(reader.value(name), value.get<double>()) << line;
      }
    }
  }
  EXPECT_GT(rows, 7000);
}

TEST(MetricReader, names_without_end_are_left_out) {
  MetricReader reader;
  for (int i = 0; i < 3000; ++i)
    EXPECT_TRUE(reader.read("{\"step\": 1, \"" + std::to_string(i) + "\": 2}"));
  EXPECT_EQ(reader.columns().size(), MetricReader::kMostColumns);
}

}  // namespace
}  // namespace maglev
