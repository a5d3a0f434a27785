#include <cmath>
#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/core/file.h"
#include "base/metrics/sink.h"

namespace maglev {
namespace sinks::jsonl {
SinkEntry entry();
}
namespace {

class JsonlSink : public ::testing::Test {
 protected:
  void SetUp() override {
    info_.dir =
        (std::filesystem::temp_directory_path() / ("maglev-jsonl-" + std::to_string(::getpid())))
            .string();
    std::filesystem::remove_all(info_.dir);
    make_dirs(info_.dir);
  }
  void TearDown() override { std::filesystem::remove_all(info_.dir); }
  // writes rows of these steps as one process of the run would
  void run(const std::vector<int64_t>& steps, int64_t resumed_at) {
    info_.resumed_at = resumed_at;
    auto sink = sinks::jsonl::entry().open(info_);
    for (int64_t step : steps) sink->write({.step = step, .values = {}});
    sink->close("finished");
  }
  std::string path() const { return info_.dir + "/metrics.jsonl"; }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> found;
    std::istringstream in(read_file(path(), 1 << 20));
    for (std::string line; std::getline(in, line);)
      found.push_back(nlohmann::json::parse(line)["step"]);
    return found;
  }

  RunInfo info_;
};

TEST_F(JsonlSink, a_row_is_one_line_with_its_values_in_order) {
  auto sink = sinks::jsonl::entry().open(info_);
  sink->write({.step = 128,
               .seconds = 0.5,
               .steps_per_second = 256,
               .episodes = 2,
               .return_mean = 20.25,
               .values = {{"loss/policy", -0.1}, {"step", 3}, {"odd \"name\"", 1e300}}});
  EXPECT_EQ(read_file(path(), 1000),
            "{\"step\": 128, \"seconds\": 0.5, \"steps_per_second\": 256, \"return_mean\": 20.25, "
            "\"episodes\": 2, "
            "\"loss/policy\": -0.1, \"value/step\": 3, \"odd \\\"name\\\"\": 1e+300}\n");
}

TEST_F(JsonlSink, figures_that_are_not_finite_are_null) {
  auto sink = sinks::jsonl::entry().open(info_);
  sink->write(
      {.step = 1, .return_mean = std::nan(""), .values = {{"a", INFINITY}, {"b", -INFINITY}}});
  auto json = nlohmann::json::parse(read_file(path(), 1000));
  EXPECT_TRUE(json["return_mean"].is_null() && json["a"].is_null() && json["b"].is_null());
}

TEST_F(JsonlSink, a_continued_run_drops_later_rows_and_a_torn_line) {
  run({100, 200, 300}, -1);
  AppendFile torn(path());
  torn.append("{\"step\": 150, \"sec");
  torn.flush();
  run({250}, 200);
  EXPECT_EQ(steps(), (std::vector<int64_t>{100, 200, 250}));
  run({200}, 0);
  EXPECT_EQ(steps(), std::vector<int64_t>{200});
}

TEST_F(JsonlSink, a_new_run_begins_with_an_empty_file) {
  run({100}, -1);
  run({1}, -1);
  EXPECT_EQ(steps(), std::vector<int64_t>{1});
}

TEST_F(JsonlSink, an_event_is_a_line_of_its_own_values_and_a_history_leaves_it_out) {
  {
    auto sink = sinks::jsonl::entry().open(info_);
    sink->write({.step = 128, .return_mean = 20.5, .values = {}});
    sink->write({.step = 64, .seconds = 2, .values = {{"eval/return_mean", 9}}, .event = true});
    sink->close("finished");
  }
  EXPECT_TRUE(read_file(path(), 1000)
                  .ends_with("{\"step\": 64, \"seconds\": 2, \"eval/return_mean\": 9}\n"));
  std::vector<std::pair<int64_t, double>> past;
  sinks::jsonl::entry().read_back(
      info_.dir, [&](const PastRow& row) { past.emplace_back(row.step, row.return_mean); });
  EXPECT_EQ(past, (std::vector<std::pair<int64_t, double>>{{128, 20.5}}));
}

}  // namespace
}  // namespace maglev
