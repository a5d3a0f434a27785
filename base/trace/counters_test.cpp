#include "base/trace/counters.h"

#include <cerrno>
#include <ctime>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/trace/tracer.h"

namespace maglev::trace {
namespace {

// a processor whose counters are what the test says: of each thread its own
thread_local int64_t counted = 0;

CounterSource fake(bool hardware = true) {
  return {.open = [hardware] {
    counted = 0;
    return [hardware](Counts& counts) {
      for (size_t i = 0; i < counts.size(); ++i)
        counts[i] = !hardware && i < kHardwareCounters ? -1 : int64_t(i + 1) * counted;
      return true;
    };
  }};
}

const SpanRecord* span_named(const ThreadSpans& thread, std::string_view name) {
  for (const SpanRecord& span : thread.spans)
    if (name == span.name) return &span;
  return nullptr;
}

TEST(Counters, a_stage_counts_what_is_within_it) {
  Tracer tracer(1000, 64, fake());
  ASSERT_TRUE(tracer.start());
  {
    const auto outer = stage("outer");
    counted += 10;
    {
      const auto inner = stage("inner");
      const auto of_no_stage = kernel("k");
      counted += 5;
    }
    counted += 1;
  }
  tracer.stop();
  const Recording recording = tracer.take();
  const ThreadSpans& thread = recording.threads.at(0);
  ASSERT_EQ(thread.counts.size(), 2u);
  const SpanRecord *outer = span_named(thread, "outer"), *inner = span_named(thread, "inner");
  for (size_t i = 0; i < kCounters.size(); ++i) {
    EXPECT_EQ(thread.counts[outer->counts - 1][i], int64_t(i + 1) * 16) << kCounters[i];
    EXPECT_EQ(thread.counts[inner->counts - 1][i], int64_t(i + 1) * 5) << kCounters[i];
  }
  EXPECT_EQ(span_named(thread, "k")->counts, 0u);
}

TEST(Counters, threads_count_for_themselves) {
  Tracer tracer(1000, 64, fake());
  tracer.start();
  {
    std::vector<std::jthread> threads;
    for (int64_t add : {3, 7})
      threads.emplace_back([add] {
        const auto span = stage(add == 3 ? "three" : "seven");
        counted += add;
      });
  }
  const Recording recording = tracer.take();
  ASSERT_EQ(recording.threads.size(), 2u);
  for (const ThreadSpans& thread : recording.threads)
    EXPECT_EQ(thread.counts.at(0)[0], thread.spans[0].name == std::string_view("three") ? 3 : 7);
}

TEST(Counters, what_is_not_counted_is_negative_and_a_stage_that_began_before_has_none) {
  const Counts begin{1, -1, 5}, end{4, 2, -1};
  const Counts between = counted_between(begin, end);
  EXPECT_EQ(between[0], 3);
  EXPECT_EQ(between[1], -1);
  EXPECT_EQ(between[2], -1);
  Tracer tracer(1000, 64, fake(/*hardware=*/false));
  {
    const auto early = stage("early");
    tracer.start();
    const auto late = stage("late");
    counted += 2;
  }
  const Recording recording = tracer.take();
  ASSERT_EQ(recording.spans(), 1u);
  EXPECT_EQ(recording.threads[0].counts.at(0)[0], -1);
  EXPECT_EQ(recording.threads[0].counts.at(0)[kHardwareCounters], 2 * (1 + kHardwareCounters));
}

TEST(Counters, counters_that_stop_leave_spans_without_counts) {
  bool counts_now = true;
  Tracer tracer(1000, 64, {.open = [&] {
                  return [&](Counts& counts) { return counts.fill(1), counts_now; };
                }});
  tracer.start();
  {
    const auto span = stage("counted");
  }
  counts_now = false;
  {
    const auto span = stage("not counted");
  }
  const Recording recording = tracer.take();
  EXPECT_EQ(recording.spans(), 2u);
  EXPECT_EQ(recording.threads.at(0).counts.size(), 1u);
  // a system that gives none: spans alone
  Tracer without(1000, 64, {.open = [] { return ReadCounts(); }});
  tracer.stop();
  without.start();
  {
    const auto span = stage("s");
  }
  EXPECT_EQ(without.take().threads.at(0).spans.at(0).counts, 0u);
}

TEST(Counters, counts_take_room_as_spans_do) {
  Tracer tracer(/*most=*/20, 64, fake());
  tracer.start();
  for (int i = 0; i < 30; ++i) const auto span = stage("s");
  const Recording recording = tracer.take();
  EXPECT_EQ(recording.spans(), 10u);
  EXPECT_EQ(recording.dropped, 20);
}

TEST(Counters, why_they_are_refused_says_what_to_do) {
  EXPECT_NE(counters_refused(EACCES, "4\n").find("kernel.perf_event_paranoid = 4 or"),
            std::string::npos);
  EXPECT_NE(counters_refused(ENOENT, "2").find("virtual"), std::string::npos);
  EXPECT_EQ(counters_refused(ENOSYS, ""), "this kernel has no perf_event_open");
}

// what this machine counts: its processor's events, or the kernel's, or a line that says why not
TEST(Counters, the_systems_counters_count_this_threads_time) {
  const CounterSource source = perf_counters();
  if (!source.open) {
    EXPECT_NE(source.lacks.find("not counted: cycles"), std::string::npos) << source.lacks;
    return;
  }
  const ReadCounts read = source.open();
  ASSERT_TRUE(read);
  Counts begin, end;
  ASSERT_TRUE(read(begin));
  const auto processor_ns = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  };
  const int64_t from = processor_ns();
  while (processor_ns() - from < 5'000'000) {
  }
  ASSERT_TRUE(read(end));
  const Counts between = counted_between(begin, end);
  constexpr size_t kTaskClock = 4;
  ASSERT_EQ(kCounters[kTaskClock], "task_clock_ns");
  EXPECT_GE(between[kTaskClock], 4'000'000);
  for (size_t i = 0; i < kCounters.size(); ++i) {
    const bool told = source.lacks.find(kCounters[i]) != std::string::npos;
    EXPECT_EQ(begin[i] < 0, told) << kCounters[i] << ": " << source.lacks;
  }
  if (between[0] >= 0) {
    EXPECT_GT(between[0], 1'000'000) << "cycles";
    EXPECT_GT(between[1], 100'000) << "instructions";
  }
}

}  // namespace
}  // namespace maglev::trace
