#include "base/trace/file.h"

#include <zlib.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace maglev::trace {
namespace {

using Json = nlohmann::json;

// a stage of 10 us with a wait, a copy, a kernel and a replay in it
Recording recorded() {
  Recording recording{.begin_ns = 1'000'000,
                      .end_ns = 2'000'000,
                      .realtime_ns = 1'700'000'000'000'000'000,
                      .realtime_end_ns = 1'700'000'000'000'000'100,
                      .dropped = 7,
                      .span_cost_s = 5e-8,
                      .drain_s = 1e-3,
                      .threads = {}};
  const auto span = [](Category category, const char* name, const char* text, int64_t begin,
                       int64_t end, int64_t first = -1, int64_t second = -1) {
    return SpanRecord{name, text, begin, end, first, second, category};
  };
  recording.threads.push_back(
      {.tid = 11,
       .name = "a \"name\"\n",
       .spans = {span(Category::wait, "pool", "pool", 1'001'000, 1'002'000),
                 span(Category::copy, "columns", "HtoD", 1'002'000, 1'003'000, 4096, 1),
                 span(Category::kernel_cpu, "dense", nullptr, 1'003'000, 1'004'500, 100, 200),
                 span(Category::graph, "act,env_step", "act,env_step", 1'005'000, 1'006'000),
                 span(Category::stage, "iteration", nullptr, 1'000'500, 1'010'500, 640)}});
  recording.threads.push_back(
      {.tid = 12,
       .name = "",
       .spans = {span(Category::stage, "act", nullptr, 1'000'000, 1'000'001)}});
  return recording;
}

RecordedRun described() {
  return {.version = "1.0",
          .run = "runs/\\x",
          .algorithm = "ppo",
          .environment = "cartpole",
          .device = "cpu",
          .mode = "lite",
          .window = "5-6",
          .reason = "window",
          .threads = 2,
          .written_by = 99,
          .boot = "abc",
          .peak_gflops = 60,
          .peak_gbytes_s = 20,
          .counters = "counted",
          .processors = 4,
          .iteration_steps = 512,
          .block_environments = 8,
          .settings = {{"env.count", "64"}, {"trace.window", "\"5\""}},
          .use = {{.tid = 11, .on_processor = 90, .queued = 7, .faults = 2}, {.tid = 12}},
          .programs = {{.tid = 13, .on_processor = 80}}};
}

std::string chrome(const Recording& recording, std::string_view inner = "") {
  std::string text;
  write_chrome(recording, described(), inner, [&](std::string_view bytes) { text += bytes; });
  return text;
}

Json event_named(const Json& file, const std::string& name) {
  for (const Json& event : file["traceEvents"])
    if (event["name"] == name) return event;
  return {};
}

TEST(TraceFile, chromes_json_says_what_was_recorded) {
  const Json file = Json::parse(chrome(recorded()));
  EXPECT_EQ(file["baseTimeNanoseconds"], 1'700'000'000'001'000'000);
  const Json iteration = event_named(file, "iteration");
  EXPECT_EQ(iteration["ph"], "X");
  EXPECT_EQ(iteration["cat"], "stage");
  EXPECT_EQ(iteration["pid"], 99);
  EXPECT_EQ(iteration["tid"], 11);
  EXPECT_DOUBLE_EQ(iteration["ts"], 0.5);
  EXPECT_DOUBLE_EQ(iteration["dur"], 10.0);
  EXPECT_EQ(iteration["args"], Json({{"step", 640}}));
  EXPECT_EQ(event_named(file, "act")["args"], Json::object());
  EXPECT_DOUBLE_EQ(event_named(file, "act")["dur"], 0.001);
  EXPECT_EQ(event_named(file, "pool")["args"], Json({{"on", "pool"}}));
  EXPECT_EQ(event_named(file, "columns")["args"],
            Json({{"bytes", 4096}, {"direction", "HtoD"}, {"pageable", true}}));
  EXPECT_EQ(event_named(file, "dense")["args"], Json({{"flops", 100}, {"bytes", 200}}));
  EXPECT_EQ(event_named(file, "act,env_step")["args"], Json({{"phases", "act,env_step"}}));
  EXPECT_EQ(event_named(file, "thread_name")["args"]["name"], "a \"name\"\n");
  const Json& run = file["maglev"];
  EXPECT_EQ(run["run"], "runs/\\x");
  EXPECT_EQ(run["dropped"], 7);
  EXPECT_EQ(run["threads"], 2);
  EXPECT_EQ(run["window"], "5-6");
  EXPECT_EQ(run["peaks"], Json({{"gflops", 60}, {"gbytes_s", 20}}));
  EXPECT_EQ(run["boot"], "abc");
  EXPECT_EQ(run["processors"], 4);
  EXPECT_EQ(run["iteration_steps"], 512);
  EXPECT_EQ(run["block_environments"], 8);
  EXPECT_EQ(run["settings"], Json({{"env.count", "64"}, {"trace.window", "\"5\""}}));
  ASSERT_EQ(run["use"].size(), 2u);
  EXPECT_EQ(run["use"][0], Json({{"tid", 11},
                                 {"on_processor_ns", 90},
                                 {"queued_ns", 7},
                                 {"in_kernel_ns", 0},
                                 {"faults", 2},
                                 {"gave_up", 0},
                                 {"taken_away", 0}}));
  ASSERT_EQ(run["programs"].size(), 1u);
  EXPECT_EQ(run["programs"][0]["on_processor_ns"], 80);
  EXPECT_NEAR(run["overhead_s"].get<double>(), 1e-3 + 5 * 5e-8, 1e-9);
}

TEST(TraceFile, what_a_stage_counted_is_in_its_args) {
  Recording recording = recorded();
  recording.threads[0].counts = {{100, 250, 3, -1, 9000, 0, 1}};
  recording.threads[0].spans[4].counts = 1;
  recording.threads[1].counts = {{-1, -1, -1, -1, 7, -1, -1}};
  recording.threads[1].spans[0].counts = 1;
  const Json file = Json::parse(chrome(recording));
  EXPECT_EQ(event_named(file, "iteration")["args"], Json({{"step", 640},
                                                          {"cycles", 100},
                                                          {"instructions", 250},
                                                          {"cache_misses", 3},
                                                          {"task_clock_ns", 9000},
                                                          {"page_faults", 0},
                                                          {"context_switches", 1}}));
  EXPECT_EQ(event_named(file, "act")["args"], Json({{"task_clock_ns", 7}}));
  std::string packets;
  write_perfetto(recording, described(), [&](std::string_view bytes) { packets += bytes; });
  EXPECT_NE(packets.find("instructions"), std::string::npos);
  EXPECT_EQ(packets.find("branch_misses"), std::string::npos);
}

TEST(TraceFile, an_outer_span_comes_before_what_is_in_it) {
  const Json file = Json::parse(chrome(recorded()));
  std::vector<std::string> names;
  for (const Json& event : file["traceEvents"])
    if (event["ph"] == "X" && event["tid"] == 11) names.push_back(event["name"]);
  EXPECT_EQ(names,
            (std::vector<std::string>{"iteration", "pool", "columns", "dense", "act,env_step"}));
}

TEST(TraceFile, events_of_torchs_profiler_are_beside_ours_on_its_clock) {
  const std::string inner = R"({"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000,
    "traceEvents": [ {"ph": "X", "name": "aten::add", "ts": 1, "dur": 1, "pid": 99, "tid": 11} ],
    "traceName": "x"})";
  const Json file = Json::parse(chrome(recorded(), inner));
  EXPECT_EQ(file["schemaVersion"], 1);
  EXPECT_EQ(file["traceName"], "x");
  EXPECT_FALSE(event_named(file, "aten::add").is_null());
  // 1,000,500 ns behind its base
  EXPECT_DOUBLE_EQ(event_named(file, "iteration")["ts"], 1000.5);
  EXPECT_EQ(file["maglev"]["mode"], "lite");
  // one without events
  const Json none =
      Json::parse(chrome(recorded(), R"({"baseTimeNanoseconds": 5, "traceEvents": []})"));
  EXPECT_FALSE(event_named(none, "iteration").is_null());
}

TEST(TraceFile, what_is_no_file_of_the_profiler_is_left_out) {
  for (const char* inner : {"", "{}", "]", "\"traceEvents\"", "}[\"traceEvents\"["}) {
    const Json file = Json::parse(chrome(recorded(), inner));
    EXPECT_FALSE(event_named(file, "iteration").is_null()) << inner;
  }
}

TEST(TraceFile, gzip_gives_back_what_it_took) {
  std::string text, packed;
  Gzip gzip([&](std::string_view bytes) { packed += bytes; });
  for (int i = 0; i < 100000; ++i) {
    const std::string line = std::to_string(i * 7919 % 100003) + "\n";
    gzip.write(line);
    text += line;
  }
  gzip.finish();
  std::string back(text.size() + 1, '\0');
  z_stream z{};
  ASSERT_EQ(inflateInit2(&z, 15 + 16), Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(packed.data()), z.avail_in = uInt(packed.size());
  z.next_out = reinterpret_cast<Bytef*>(back.data()), z.avail_out = uInt(back.size());
  EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
  back.resize(z.total_out);
  inflateEnd(&z);
  EXPECT_EQ(back, text);
  EXPECT_LT(packed.size(), text.size());
}

}  // namespace
}  // namespace maglev::trace
