#include "base/timeline/replay.h"

#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "tests/folder.h"
#include "tests/trace_text.h"

namespace maglev {
namespace {

// What a program of a main thread, three workers and two streams does, drawn at random: the same
// program is run with some of its parts taking no time.
struct Step {
  enum { input, operation, launch, copy_launch, region, sync } kind;
  int64_t length = 0;  // of the host's part
  int64_t work = 0;    // of the device's
  int stream = 0;
  std::array<int64_t, 3> workers{};  // of each thread
};

std::vector<Step> program(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Step> steps;
  const auto up_to = [&](int64_t most) { return 1 + int64_t(random() % uint64_t(most)); };
  for (int i = 0; i < 60; ++i) {
    Step step{.kind = decltype(Step::kind)(random() % 6), .length = up_to(20)};
    step.work = up_to(60), step.stream = int(random() % 2);
    for (int64_t& worker : step.workers) worker = up_to(80);
    // a region follows work of the main thread, as the next one's threads have stood still before
    if (step.kind == Step::region) steps.push_back({.kind = Step::operation, .length = up_to(9)});
    steps.push_back(step);
  }
  return steps;
}

struct Freed {
  bool input = false, env_step = false, copies = false, launches = false;
};

// Runs it and writes its trace; returns when all is done, us.
int64_t simulate(const std::vector<Step>& steps, const Freed& freed, TraceText& trace) {
  int64_t now = 0;
  std::array<int64_t, 2> streams{};
  std::array<int64_t, 3> workers{};
  int correlation = 0;
  const auto span = [&](const char* category, const char* name, int pid, int tid, int64_t begin,
                        int64_t length, const std::string& args = "") {
    if (length > 0) trace.span(category, name, pid, tid, begin, length, args);
  };
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::input:
      case Step::operation: {
        const bool input = step.kind == Step::input;
        const int64_t length = input && freed.input ? 0 : step.length;
        span(input ? "user_annotation" : "cpu_op", input ? "DataLoader" : "op", 1, 1, now, length);
        now += length;
        break;
      }
      case Step::launch:
      case Step::copy_launch: {
        const bool copy = step.kind == Step::copy_launch;
        const std::string link = "\"correlation\":" + std::to_string(++correlation);
        const int64_t length = freed.launches ? 0 : step.length;
        span("cuda_runtime", "cudaLaunchKernel", 1, 1, now, length, link);
        now += length;
        int64_t& stream = streams[size_t(step.stream)];
        const int64_t begin = std::max(stream, now), work = copy && freed.copies ? 0 : step.work;
        span(copy ? "gpu_memcpy" : "kernel", copy ? "Memcpy HtoD (Pageable -> Device)" : "k", 0,
             7 + step.stream, begin, work, link);
        stream = begin + work;
        break;
      }
      case Step::region: {
        int64_t last = now;
        for (size_t w = 0; w < workers.size(); ++w) {
          const int64_t length = freed.env_step ? 0 : step.workers[w];
          span("stage", "env_step", 1, 2 + int(w), now, length);
          span("cpu_op", "reset", 1, 2 + int(w), now + length, 3);
          workers[w] = now + length + 3, last = std::max(last, workers[w]);
        }
        span("wait", "wait", 1, 1, now, last - now, "\"on\":\"pool\"");
        now = last;
        break;
      }
      case Step::sync: {
        const int64_t end = std::max({now, streams[0], streams[1]}) + 2;
        span("cuda_runtime", "cudaDeviceSynchronize", 1, 1, now, end - now);
        now = end;
        break;
      }
    }
  }
  return std::max({now, streams[0], streams[1]});
}

int64_t replayed(const TraceText& trace, int64_t length, const SpanGraph::Free& free) {
  const std::string path = test_folder() + "/replay_test.json";
  write_atomic(path, trace.text("\"maglev\":{},"));
  TimelineReader reader(path);
  reader.next();
  Meanings meanings;
  const Timeline& timeline = reader.timeline();
  size_t main = 0;
  while (timeline.tracks[main].thread != "1") ++main;
  return SpanGraph(timeline, meanings, main, 0, length * 1000).length(free) / 1000;
}

TEST(SpanGraph, takes_as_long_as_it_took_with_nothing_free) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    TraceText trace;
    const int64_t length = simulate(program(seed), {}, trace);
    EXPECT_EQ(replayed(trace, length, [](uint32_t) { return false; }), length) << seed;
  }
}

// the point of it: what a replay says of a program without its slow parts is what that program
// takes
TEST(SpanGraph, takes_as_long_as_a_program_without_what_is_free) {
  struct Case {
    Freed freed;
    uint32_t bits;
  };
  for (const Case& c :
       {Case{{.input = true}, meaning::data}, Case{{.env_step = true}, meaning::env_step},
        Case{{.copies = true}, meaning::pageable}, Case{{.launches = true}, meaning::launch},
        Case{{.input = true, .env_step = true, .copies = true},
             meaning::data | meaning::env_step | meaning::pageable}}) {
    int64_t shorter = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
      TraceText trace, unread;
      const int64_t length = simulate(program(seed), {}, trace);
      const int64_t expected = simulate(program(seed), c.freed, unread);
      EXPECT_EQ(replayed(trace, length, [&](uint32_t bits) { return (bits & c.bits) != 0; }),
                expected)
          << seed << " " << c.bits << " of " << length;
      shorter += length - expected;
    }
    EXPECT_GT(shorter, 50 * 20) << c.bits;
  }
}

}  // namespace
}  // namespace maglev
