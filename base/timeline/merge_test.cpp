#include "base/timeline/merge.h"

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/timeline/analysis.h"
#include "base/timeline/events.h"
#include "base/timeline/origin.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

using MergedJson = nlohmann::json;
constexpr int64_t kEpoch = 1'700'000'000'000'000'000;

struct Process {
  int64_t base_ns = kEpoch, ahead_ns = 0, ahead_end_ns = 0;
  std::string boot = "one";
  int pid = 7;
  std::string environments = "8", run = "";        // empty: its name
  std::vector<std::pair<int64_t, int64_t>> spans;  // begin and end of "barrier", ns of its base
};

std::string file_of(const std::string& name, const Process& process) {
  MergedJson events = MergedJson::array();
  events.push_back({{"ph", "M"},
                    {"name", "process_name"},
                    {"pid", process.pid},
                    {"tid", 1},
                    {"args", {{"name", name}}}});
  for (size_t i = 0; i < process.spans.size(); ++i) {
    const auto [begin, end] = process.spans[i];
    events.push_back({{"ph", "X"},
                      {"cat", "stage"},
                      {"name", "barrier"},
                      {"pid", process.pid},
                      {"tid", 1},
                      {"ts", double(begin) / 1e3},
                      {"dur", double(end - begin) / 1e3},
                      {"args", {{"step", 64 * i}, {"text", "a \"quoted\" {word"}}}});
    events.push_back({{"ph", "s"},
                      {"id", 5},
                      {"name", "flow"},
                      {"pid", process.pid},
                      {"tid", 1},
                      {"ts", double(begin) / 1e3}});
  }
  const MergedJson file = {
      {"baseTimeNanoseconds", process.base_ns},
      {"traceEvents", events},
      {"maglev",
       {{"run", process.run.empty() ? name : process.run},
        {"pid", process.pid},
        {"boot", process.boot},
        {"dropped", 2},
        {"processors", 2},
        {"iteration_steps", process.pid},
        {"settings", {{"threads", "2"}, {"env.count", process.environments}}},
        {"use", {{{"tid", 1}, {"faults", 5}}, {{"tid", 100 + process.pid}, {"faults", 6}}}},
        {"monotonic_begin_ns", process.base_ns - process.ahead_ns},
        {"monotonic_end_ns", process.base_ns - process.ahead_ns + 1'000'000'000},
        {"realtime_ahead_ns", process.ahead_ns},
        {"realtime_ahead_end_ns", process.ahead_end_ns}}}};
  const std::string path = test_folder() + "/" + name + ".json";
  std::ofstream(path) << file.dump();
  return path;
}

struct Merge {
  std::vector<MergedTrace> files;
  MergedJson trace;
};
Merge merge_of(const std::vector<std::string>& paths, const std::string& marks = "") {
  std::string text;
  Merge merge;
  merge.files = merge_traces(paths, marks, [&](std::string_view bytes) { text += bytes; });
  merge.trace = MergedJson::parse(text);
  return merge;
}

// begins of a process's barriers, ns of the merged file's base
std::vector<int64_t> begins(const Merge& merge, int64_t pid) {
  std::vector<int64_t> times;
  for (const auto& event : merge.trace["traceEvents"])
    if (event["ph"] == "X" && event["pid"] == pid)
      times.push_back(std::llround(1e3 * event["ts"].get<double>()));
  return times;
}

TEST(Merge, processes_of_one_machine_go_by_its_monotonic_clock) {
  // CLOCK_REALTIME was set back by 5 ms between them: the same instant, told differently
  const std::string a =
      file_of("a", {.base_ns = kEpoch, .ahead_ns = kEpoch - 1000, .spans = {{100, 200}}});
  const std::string b = file_of("b", {.base_ns = kEpoch - 5'000'000,
                                      .ahead_ns = kEpoch - 1000 - 5'000'000,
                                      .pid = 8,
                                      .spans = {{100, 200}, {300, 500}}});
  const Merge merge = merge_of({a, b});
  EXPECT_EQ(merge.files[1].clock, MergeClock::machine);
  EXPECT_EQ(merge.files[1].shift_ns, 0);
  EXPECT_EQ(begins(merge, 7), (std::vector<int64_t>{100}));
  EXPECT_EQ(begins(merge, 8), (std::vector<int64_t>{100, 300}));
  EXPECT_EQ(merge.trace["baseTimeNanoseconds"], kEpoch);
}

TEST(Merge, machines_go_by_barriers_and_their_drift_is_fitted) {
  // b's clock is 1.25 s behind and 40 ppm slow; a barrier ends in both within some microseconds
  std::mt19937 random(1);
  Process a{.boot = "one", .pid = 7}, b{.boot = "two", .pid = 8};
  const auto seen_by_b = [](int64_t ns) {
    return ns - 1'250'000'000 - int64_t(std::llround(40e-6 * double(ns)));
  };
  for (int64_t i = 1; i <= 60; ++i) {
    const int64_t end = i * 50'000'000;
    a.spans.push_back({end - 1'000'000, end + int64_t(random() % 3000)});
    b.spans.push_back({seen_by_b(end - 700'000), seen_by_b(end + int64_t(random() % 3000))});
  }
  const Merge merge = merge_of({file_of("a", a), file_of("b", b)});
  const MergedTrace& told = merge.files[1];
  EXPECT_EQ(told.clock, MergeClock::marks);
  EXPECT_EQ(told.marks, 60u);
  EXPECT_NEAR(told.drift_ppm, 40, 3);
  EXPECT_LT(told.residual_ns, 3000);
  const auto times = begins(merge, 8);
  ASSERT_EQ(times.size(), 60u);
  for (int64_t i = 1; i <= 60; ++i)
    EXPECT_NEAR(double(times[size_t(i - 1)]), double(i * 50'000'000 - 700'000), 6000) << i;
}

TEST(Merge, marks_that_are_named_are_matched_by_their_step) {
  const std::string a = file_of("a", {.spans = {{0, 100}, {200, 300}, {400, 500}}});
  Process late{.pid = 8, .spans = {{9000, 9100}, {9200, 9300}, {9400, 9500}}};
  const std::string b = file_of("b", late);
  const Merge merge = merge_of({a, b}, "barrier");
  EXPECT_EQ(merge.files[1].marks, 3u);
  EXPECT_EQ(begins(merge, 8), (std::vector<int64_t>{0, 200, 400}));
  EXPECT_TRUE(contains(error_of([&] { merge_of({a, b}, "iteration"); }), "shares no mark"));
}

TEST(Merge, several_marks_of_one_step_are_told_apart_by_their_order) {
  // three barriers a step: each is another
  Process a{.boot = "one"}, b{.boot = "two", .pid = 8};
  for (int64_t i = 0; i < 12; ++i) {
    a.spans.push_back({1'000'000 * i, 1'000'000 * i + 100});
    b.spans.push_back({1'000'000 * i - 500'000'000, 1'000'000 * i - 500'000'000 + 100});
  }
  const auto in_steps = [](const std::string& path) {
    MergedJson file = MergedJson::parse(std::ifstream(path));
    for (auto& event : file["traceEvents"])
      if (event["ph"] == "X") event["args"]["step"] = event["args"]["step"].get<int64_t>() / 64 / 3;
    std::ofstream(path) << file.dump();
    return path;
  };
  const Merge merge = merge_of({in_steps(file_of("a", a)), in_steps(file_of("b", b))});
  EXPECT_EQ(merge.files[1].marks, 12u);
  EXPECT_EQ(merge.files[1].residual_ns, 0);
  EXPECT_EQ(begins(merge, 8), begins(merge, 7));
}

TEST(Merge, marks_that_lie_apart_show_no_drift) {
  std::mt19937 random(2);
  Process a{.boot = "one"}, b{.boot = "two", .pid = 8};
  for (int64_t i = 0; i < 10; ++i) {
    a.spans.push_back({1'000'000 * i, 1'000'000 * i + 100 + int64_t(random() % 200'000)});
    b.spans.push_back({1'000'000 * i, 1'000'000 * i + 100 + int64_t(random() % 200'000)});
  }
  EXPECT_EQ(merge_of({file_of("a", a), file_of("b", b)}).files[1].drift_ppm, 0);
}

TEST(Merge, a_pid_that_is_no_plain_number_stays_json) {
  for (const MergedJson& pid : {MergedJson(-1), MergedJson(1.5), MergedJson("host 3")}) {
    const std::string path = file_of("a", {.spans = {{0, 100}}});
    MergedJson file = MergedJson::parse(std::ifstream(path));
    for (auto& event : file["traceEvents"]) event["pid"] = pid;
    std::ofstream(path) << file.dump();
    const Merge merge = merge_of({path, path});
    std::set<std::string> pids;
    for (const auto& event : merge.trace["traceEvents"]) pids.insert(event["pid"].dump());
    EXPECT_EQ(pids.size(), 2u) << pid;
  }
}

TEST(Merge, without_marks_machines_go_by_their_system_clocks_and_their_drift) {
  const std::string a = file_of("a", {.boot = "one", .spans = {{1000, 2000}}});
  Process b{
      .base_ns = kEpoch + 3000, .ahead_ns = 0, .ahead_end_ns = 10'000, .boot = "two", .pid = 8};
  b.spans = {{0, 100}, {500'000'000, 500'000'100}};
  // no barrier of the same step
  MergedJson renamed = MergedJson::parse(std::ifstream(file_of("b", b)));
  for (auto& event : renamed["traceEvents"])
    if (event["name"] == "barrier") event["name"] = "work";
  const std::string path = test_folder() + "/c.json";
  std::ofstream(path) << renamed.dump();
  // begun at kEpoch + 3000; REALTIME gains 10 us a second on MONOTONIC, 5 in half of one
  const Merge merge = merge_of({a, path});
  EXPECT_EQ(merge.files[1].clock, MergeClock::system);
  EXPECT_EQ(begins(merge, 8), (std::vector<int64_t>{3000, 500'008'000}));
}

TEST(Merge, settings_that_are_alike_stay_and_threads_keep_what_they_had) {
  const auto file = merge_of({file_of("a", {.pid = 7, .spans = {{0, 10}}}),
                              file_of("b", {.pid = 8, .environments = "16", .spans = {{0, 10}}})});
  const TraceOrigin origin = origin_of(file.trace["maglev"].dump());
  EXPECT_EQ(origin.settings, (std::map<std::string, std::string>{{"threads", "2"}}));
  EXPECT_EQ(origin.processors, 2);
  EXPECT_EQ(origin.iteration_steps, 0);
  // which of two threads a number is of nobody can tell
  ASSERT_EQ(origin.use.size(), 2u);
  EXPECT_EQ(origin.use[0].tid, 107);
  EXPECT_EQ(origin.use[1].tid, 108);
  EXPECT_EQ(origin.use[0].faults, 6);
}

TEST(Merge, pids_and_flows_are_kept_apart_and_all_else_stays) {
  const std::string a = file_of("a", {.spans = {{0, 100}}});
  const std::string b = file_of("b", {.spans = {{0, 100}}});
  const Merge merge = merge_of({a, b});
  std::set<int64_t> pids, ids;
  for (const auto& event : merge.trace["traceEvents"]) {
    pids.insert(event["pid"].get<int64_t>());
    if (event["ph"] == "s") ids.insert(event["id"].get<int64_t>());
    if (event["ph"] == "X") {
      EXPECT_EQ(event["args"]["text"], "a \"quoted\" {word");
    }
  }
  EXPECT_EQ(pids.size(), 2u);
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(merge.trace["maglev"]["dropped"], 4);
  EXPECT_EQ(merge.trace["maglev"]["merged"][1]["run"], "b");
}

TEST(Merge, windows_of_one_process_stay_one) {
  // each file is of one second
  const auto file = [](const char* name, int64_t begin_ns, const char* run, int pid = 7) {
    return file_of(
        name,
        {.base_ns = kEpoch + begin_ns, .pid = pid, .run = run, .spans = {{0, 100}, {200, 300}}});
  };
  const std::string first = file("first", 0, "run"), later = file("later", 2'000'000'000, "run");
  const Merge one = merge_of({first, later});
  EXPECT_EQ(one.files[1].process, 0u);
  EXPECT_EQ(begins(one, 7), (std::vector<int64_t>{0, 200, 2'000'000'000, 2'000'000'200}));
  const std::string path = test_folder() + "/windows.json";
  std::ofstream(path) << one.trace.dump();
  const Analysis analysis = analyse_trace(path);
  EXPECT_TRUE(analysis.processes.empty());
  ASSERT_EQ(analysis.doubts.size(), 2u);
  EXPECT_TRUE(contains(analysis.doubts[0], "windows of one process"));
  EXPECT_TRUE(contains(analysis.doubts[1], "dropped"));
  // what overlaps, and another run of that number, are others
  const Merge others =
      merge_of({first, file("over", 500'000'000, "run"), file("other", 2'000'000'000, "else"),
                file("rank", 2'000'000'000, "run", 8), later});
  std::vector<size_t> processes;
  for (const MergedTrace& trace : others.files) processes.push_back(trace.process);
  EXPECT_EQ(processes, (std::vector<size_t>{0, 1, 2, 3, 0}));
}

TEST(Merge, a_merged_trace_is_analysed_by_process) {
  const std::string a = file_of("a", {.pid = 7, .spans = {{0, 100'000}, {100'000, 300'000}}});
  const std::string b = file_of("b", {.pid = 7, .spans = {{350'000, 400'000}}});
  const std::string path = test_folder() + "/merged.json";
  std::ofstream(path) << merge_of({a, b}).trace.dump();
  const Analysis analysis = analyse_trace(path);
  ASSERT_EQ(analysis.processes.size(), 2u);
  EXPECT_EQ(analysis.processes[0].name, "a");
  EXPECT_EQ(analysis.processes[0].wall, 300'000);
  EXPECT_EQ(analysis.processes[0].busy, 300'000);
  EXPECT_EQ(analysis.processes[1].name, "b");
  EXPECT_EQ(analysis.processes[1].begin, 350'000);
  EXPECT_EQ(analysis.processes[1].busy, 50'000) << "also behind the main thread's end";
  EXPECT_EQ(analysis.origin.dropped, 4);
  EXPECT_TRUE(contains(analysis.main_thread, "7: 1"));
  // one process has no table of them
  EXPECT_TRUE(analyse_trace(a).processes.empty());
}

TEST(Merge, a_file_without_a_clock_begins_where_the_first_does) {
  const std::string a = file_of("a", {.spans = {{5000, 6000}}});
  const std::string path = test_folder() + "/bare.json";
  std::ofstream(path)
      << R"([{"ph":"X","name":"x","ts":"77.5","dur":1,"tid":1},{"ph":"X","name":"y","pid":"Spans","tid":1,"ts":80,"dur":1},{}])";
  const Merge merge = merge_of({a, path});
  EXPECT_EQ(merge.files[1].clock, MergeClock::none);
  for (const auto& event : merge.trace["traceEvents"])
    if (event["name"] == "x") {
      EXPECT_EQ(event["ts"], "5.000");
      EXPECT_EQ(event["pid"], 0);
    }
}

TEST(Merge, a_torn_file_is_remembered) {
  const std::string a = file_of("a", {.spans = {{0, 100}, {200, 300}}});
  const std::string b = file_of("b", {.spans = {{0, 100}, {200, 300}}});
  std::ifstream file(b);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  std::ofstream(b) << whole.substr(0, whole.rfind("barrier"));
  const Merge merge = merge_of({a, b});
  EXPECT_EQ(merge.trace["maglev"]["merged"][0]["torn"], false);
  EXPECT_EQ(merge.trace["maglev"]["merged"][1]["torn"], true);
  const std::string both = test_folder() + "/both.json";
  std::ofstream(both) << merge.trace.dump();
  const Analysis analysis = analyse_trace(both);
  ASSERT_FALSE(analysis.doubts.empty());
  EXPECT_TRUE(contains(analysis.doubts[0], "b.json, one of the merged files"))
      << analysis.doubts[0];
}

TEST(Merge, what_is_no_trace_is_told_and_damaged_ones_are_survived) {
  const std::string a = file_of("a", {.spans = {{0, 100}, {200, 300}}});
  std::ifstream file(a);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const std::string path = test_folder() + "/damaged.json";
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole.substr(0, i % 3 ? whole.size() : random() % whole.size());
    for (int change = 0; change < 3 && !text.empty(); ++change)
      text[random() % text.size()] = char(random() % 3 ? "{}[]\",:0"[random() % 8] : random());
    std::ofstream(path) << text;
    size_t bytes = 0;
    try {
      merge_traces({a, path}, "", [&](std::string_view piece) { bytes += piece.size(); });
      EXPECT_LT(bytes, 8 * whole.size());
    } catch (const Error&) {
    }
  }
  EXPECT_TRUE(contains(error_of([&] { merge_of({a, test_folder()}); }), test_folder()));
}

}  // namespace
}  // namespace maglev
