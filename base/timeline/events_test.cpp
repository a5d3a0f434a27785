#include "base/timeline/events.h"

#include <fstream>
#include <random>
#include <vector>
#include <zlib.h>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "base/timeline/analysis.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "tests/trace_text.h"

namespace maglev {
namespace {

struct ReadEvent {
  char phase;
  std::string name, thread;
  int64_t start_ns, duration_ns;
  double bytes;
};

class TraceReading : public ::testing::Test {
 protected:
  std::vector<ReadEvent> read(const std::string& text) {
    write_atomic(path_, text);
    std::vector<ReadEvent> events;
    file_ = read_trace(path_, [&](const TraceEvent& e) {
      events.push_back(
          {e.phase, unescaped(e.name), std::string(e.thread), e.start_ns, e.duration_ns, e.bytes});
    });
    return events;
  }

  // ten thousand of them need not survive a power cut
  void write_unsynced(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }

  std::string path_ = test_folder() + "/trace.json";
  TraceFile file_;
};

TEST_F(TraceReading, takes_events_of_an_object_and_of_a_bare_array) {
  TraceText trace;
  trace.span("cpu_op", "aten::mm", 1, 2, 10, 5,
             "\"bytes\": 640, \"Input Dims\": [[2, 3], [\"}]\", {}]]");
  for (const std::string& text :
       {trace.text("\"schemaVersion\":1,\"maglev\":{\"version\":1},"), trace.array()}) {
    const auto events = read(text);
    ASSERT_EQ(events.size(), 1u) << text;
    EXPECT_EQ(events[0].name, "aten::mm");
    EXPECT_EQ(events[0].thread, "2");
    EXPECT_EQ(events[0].start_ns, 10'000);
    EXPECT_EQ(events[0].duration_ns, 5'000);
    EXPECT_EQ(events[0].bytes, 640);
    EXPECT_FALSE(file_.torn);
  }
  read(trace.text("\"maglev\":{\"run\":\"a\"},"));
  EXPECT_EQ(file_.maglev, "{\"run\":\"a\"}");
}

TEST_F(TraceReading, takes_times_as_numbers_and_strings_to_the_nanosecond) {
  const auto events = read(R"([{"ph":"X","name":"a","ts":4541845357757.450,"dur":"0.5"},
    {"ph":"X","name":"b","ts":"1661203463029548","dur":1.5e3}, {"ph":"X","name":"c","ts":-0.001,"dur":2}])");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].start_ns, 4541845357757450);
  EXPECT_EQ(events[0].duration_ns, 500);
  EXPECT_EQ(events[1].start_ns, 1661203463029548000);
  EXPECT_EQ(events[1].duration_ns, 1'500'000);
  EXPECT_EQ(events[2].start_ns, -1);
}

TEST_F(TraceReading, undoes_escapes_and_knows_their_end) {
  const auto events = read(
      R"([{"ph":"X","ts":1,"dur":1,"name":"a \"b\" \\","cat":"\\\\"},{"ph":"X","ts":2,"name":"\u00e9\n"}])");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "a \"b\" \\");
  EXPECT_EQ(events[1].name, "\xc3\xa9 ");
}

TEST_F(TraceReading, control_characters_of_names_are_spaces) {
  EXPECT_EQ(unescaped(R"(a\u0000b\u001b[31m\u009bc\u007f)"), "a b [31m c ");
  EXPECT_EQ(unescaped(std::string("a\0b\x1b\xc2\x9b\\\x1b", 8)), "a b   ");
  EXPECT_EQ(unescaped("\xc2\xa0\xc3\x9b"), "\xc2\xa0\xc3\x9b");
}

TEST_F(TraceReading, takes_what_is_whole_of_a_torn_file) {
  TraceText trace;
  for (int i = 0; i < 3; ++i) trace.span("cpu_op", "op", 1, 1, i, 1);
  const std::string text = trace.array();
  const auto events = read(text.substr(0, text.rfind("dur")));
  EXPECT_EQ(events.size(), 2u);
  EXPECT_TRUE(file_.torn);
}

TEST_F(TraceReading, passes_by_what_is_no_event) {
  const auto events = read(
      R"([1, "x", null, {"ph":"X","ts":"soon","name":"a"}, [{}], {"ph":"X","ts":1,"name":"b"}])");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, "b");
  EXPECT_EQ(file_.broken, 5u);
  EXPECT_EQ(file_.unsound, 1u);
  EXPECT_FALSE(file_.torn);
}

TEST_F(TraceReading, reads_compressed_files_and_what_is_there_of_torn_ones) {
  TraceText trace;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i)
    trace.span("cpu_op", "op" + std::to_string(random()), 1, 1, i, 1);
  const std::string zipped = test_folder() + "/whole.gz";
  const gzFile out = gzopen(zipped.c_str(), "wb");
  gzwrite(out, trace.text().data(), unsigned(trace.text().size()));
  gzclose(out);
  uint64_t count = 0;
  EXPECT_FALSE(read_trace(zipped, [&](const TraceEvent&) { ++count; }).torn);
  EXPECT_EQ(count, 20'000u);

  const std::string bytes = read_file(zipped, 1 << 30);
  write_atomic(zipped, bytes.substr(0, bytes.size() / 2));
  count = 0;
  EXPECT_TRUE(read_trace(zipped, [&](const TraceEvent&) { ++count; }).torn);
  EXPECT_GT(count, 5'000u);
  EXPECT_LT(count, 15'000u);
}

TEST_F(TraceReading, says_what_is_no_trace) {
  const auto error = [&](const std::string& text) { return error_of([&] { read(text); }); };
  EXPECT_TRUE(contains(error(""), "is empty"));
  for (const char* none : {"hello", "{\"a\": 1}", "[]", "[1, 2]",
                           "\x7f"
                           "ELF",
                           "{\"traceEvents\": 7}"})
    EXPECT_TRUE(contains(error(none), "is no trace")) << none;
  EXPECT_TRUE(contains(
      error_of([&] { read_trace(test_folder() + "/none", [](const TraceEvent&) {}); }), "none"));
  // of the two files that a run writes
  const std::string window = test_folder() + "/iter_1-2";
  write_atomic(window + ".perfetto", "\x0a\x04 a packet");
  const auto other = [&] {
    return error_of([&] { read_trace(window + ".perfetto", [](const TraceEvent&) {}); });
  };
  EXPECT_TRUE(contains(other(), "record one")) << other();
  write_atomic(window + ".json.gz", "");
  EXPECT_TRUE(contains(other(), "give " + window + ".json.gz")) << other();
  EXPECT_NE(error_of([&] { read_trace(test_folder(), [](const TraceEvent&) {}); }), "");
  write_atomic(path_, TraceText().event("\"ph\":\"M\",\"name\":\"process_name\"").text());
  EXPECT_TRUE(contains(error_of([&] { analyse_trace(path_); }), "holds no span"));
}

// 10,000 files cut off, with bytes changed, doubled and left out: each is analysed or refused
TEST_F(TraceReading, survives_damaged_files) {
  TraceText trace;
  trace.event(R"("ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"main"})");
  for (int i = 0; i < 4; ++i)
    trace.span("stage", "iteration", 1, 1, 100 * i, 100, "\"step\":" + std::to_string(i))
        .span("wait", "wait", 1, 1, 100 * i + 10, 20, "\"on\":\"pool\"")
        .span("cuda_runtime", "cudaLaunchKernel", 1, 1, 100 * i + 40, 5,
              "\"correlation\":" + std::to_string(i + 1))
        .span("kernel", "gemm", 0, 7, 100 * i + 50, 30, "\"correlation\":" + std::to_string(i + 1))
        .span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 7, 100 * i + 85, 5,
              "\"bytes\":64")
        .event("\"ph\":\"B\",\"name\":\"b\"," + TraceText::at(1, 2, 100 * i))
        .event("\"ph\":\"E\"," + TraceText::at(1, 2, 100 * i + 50));
  const std::string whole =
      trace.text(R"("deviceProperties":[{"id":0}],"maglev":{"run":"r","peaks":{"gflops":1}},)");
  std::mt19937 random(7);
  int analysed = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string text = whole;
    for (unsigned change = 0; change <= random() % 4; ++change) {
      const size_t place = random() % text.size();
      switch (random() % 5) {
        case 0:
          text.resize(place + 1);
          break;
        case 1:
          text[place] = char(random());
          break;
        case 2:
          text.erase(place, random() % 40);
          break;
        case 3:
          text.insert(place, text.substr(random() % text.size(), random() % 40));
          break;
        case 4:
          text[place] = "{}[]\",:0\\9"[random() % 10];
          break;
      }
      if (text.empty()) text = "x";
    }
    write_unsynced(text);
    try {
      const Analysis analysis = analyse_trace(path_, {.spans = 40});
      int64_t parts = analysis.outside + analysis.untraced;
      for (const NamedTime& stage : analysis.stages) parts += stage.self;
      EXPECT_EQ(parts, analysis.wall) << text;
      ++analysed;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(analysed, 5'000);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace maglev
