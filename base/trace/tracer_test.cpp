#include "base/trace/tracer.h"

#include <algorithm>
#include <ctime>
#include <thread>

#include <gtest/gtest.h>

namespace maglev::trace {
namespace {

// a thread that makes `count` stages, each with one kernel in it
void make_spans(int count, const char* outer, const char* inner) {
  for (int i = 0; i < count; ++i) {
    const auto span = stage(outer, i);
    const auto within = kernel(inner);
  }
}

TEST(Tracer, nothing_is_recorded_while_nobody_records) {
  Tracer tracer(1000);
  make_spans(3, "before", "k");
  ASSERT_TRUE(tracer.start());
  make_spans(2, "within", "k");
  tracer.stop();
  make_spans(3, "behind", "k");
  const Recording recording = tracer.take();
  ASSERT_EQ(recording.threads.size(), 1u);
  EXPECT_EQ(recording.spans(), 4u);
  for (const SpanRecord& span : recording.threads[0].spans) EXPECT_STRNE(span.name, "behind");
}

TEST(Tracer, a_span_ends_within_the_one_around_it) {
  Tracer tracer(1000);
  tracer.start();
  make_spans(5, "outer", "inner");
  const Recording recording = tracer.take();
  const auto& spans = recording.threads.at(0).spans;
  ASSERT_EQ(spans.size(), 10u);
  for (size_t i = 0; i < spans.size(); i += 2) {
    const SpanRecord &inner = spans[i], &outer = spans[i + 1];
    EXPECT_STREQ(inner.name, "inner");
    EXPECT_LE(outer.begin_ns, inner.begin_ns);
    EXPECT_LE(inner.begin_ns, inner.end_ns);
    EXPECT_LE(inner.end_ns, outer.end_ns);
    EXPECT_EQ(outer.first, int64_t(i / 2));
    EXPECT_LE(recording.begin_ns, outer.begin_ns);
    EXPECT_LE(outer.end_ns, recording.end_ns);
  }
}

TEST(Tracer, threads_do_not_mix) {
  Tracer tracer(100000);
  tracer.start();
  const char* names[] = {"a", "b", "c", "d"};
  {
    std::vector<std::jthread> threads;
    for (const char* name : names) threads.emplace_back([name] { make_spans(1000, name, name); });
    // buffers are emptied while they are filled
    for (int i = 0; i < 100; ++i) tracer.drain();
  }
  const Recording recording = tracer.take();
  EXPECT_EQ(recording.dropped, 0);
  ASSERT_EQ(recording.spans(), 8000u);
  std::vector<std::string> seen;
  for (const ThreadSpans& thread : recording.threads) {
    ASSERT_EQ(thread.spans.size(), 2000u);
    int64_t step = 0;
    for (const SpanRecord& span : thread.spans) {
      EXPECT_STREQ(span.name, thread.spans[0].name);
      if (span.category != Category::stage) continue;
      EXPECT_EQ(span.first, step++);
    }
    seen.emplace_back(thread.spans[0].name);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST(Tracer, a_full_buffer_drops_and_counts_and_keeps_the_stages) {
  Tracer tracer(1 << 20, /*capacity=*/64);
  tracer.start();
  {
    const auto around = stage("around");
    for (int i = 0; i < 100; ++i) const auto span = kernel("k");
  }
  const Recording recording = tracer.take();
  EXPECT_EQ(recording.spans(), 57u);
  EXPECT_EQ(recording.dropped, 44);
  EXPECT_STREQ(recording.threads.at(0).spans.back().name, "around");
}

TEST(Tracer, a_recording_holds_no_more_than_it_may) {
  Tracer tracer(/*most=*/80, /*capacity=*/64);
  tracer.start();
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 50; ++i) const auto span = kernel("k");
    tracer.drain();
  }
  for (int i = 0; i < 30; ++i) const auto span = stage("s");
  const Recording recording = tracer.take();
  EXPECT_EQ(recording.spans(), 80u);
  EXPECT_EQ(recording.dropped, 200);
  // what was taken out makes room
  make_spans(1, "s", "k");
  EXPECT_EQ(tracer.take().spans(), 2u);
}

TEST(Tracer, one_records_at_a_time) {
  Tracer one(100);
  {
    Tracer other(100);
    ASSERT_TRUE(one.start());
    EXPECT_FALSE(other.start());
    make_spans(1, "s", "k");
    EXPECT_EQ(other.take().spans(), 0u);
    one.stop();
    EXPECT_TRUE(other.start());
    make_spans(1, "s", "k");
    EXPECT_EQ(other.take().spans(), 2u);
  }
  EXPECT_EQ(recording.load(), nullptr);
  // what was recorded before is of the window before
  one.start();
  EXPECT_EQ(one.take().spans(), 0u);
}

TEST(Tracer, more_threads_than_it_has_buffers_for_are_counted) {
  Tracer tracer(100000);
  tracer.start();
  for (size_t i = 0; i < Tracer::kMostThreads + 10; ++i)
    std::thread([] { make_spans(1, "s", "k"); }).join();
  const Recording recording = tracer.take();
  // the thread that measured what a span costs has one too
  EXPECT_EQ(recording.threads.size(), Tracer::kMostThreads - 1);
  EXPECT_EQ(recording.dropped, 22);
}

TEST(Tracer, what_counting_costs_is_charged_to_the_stages_that_count) {
  CounterSource slow;
  slow.open = []() -> ReadCounts {
    return [](Counts& counts) {
      const int64_t until = now_ns() + 20'000;
      while (now_ns() < until) continue;
      counts.fill(1);
      return true;
    };
  };
  Tracer tracer(1 << 16, Tracer::kSpansPerThread, slow);
  tracer.start();
  {
    const auto around = stage("s");
    for (int i = 0; i < 1000; ++i) const auto span = kernel("k");
  }
  const Recording recording = tracer.take();
  EXPECT_GE(recording.counting_cost_s, 39e-6) << "two readings";
  EXPECT_LT(recording.span_cost_s, 20e-6) << "a kernel reads nothing";
  EXPECT_NEAR(recording.overhead_s() - recording.drain_s,
              1001 * recording.span_cost_s + recording.counting_cost_s, 1e-9);
  // and to none where nothing counts
  Tracer plain(100);
  tracer.stop();
  plain.start();
  EXPECT_EQ(plain.take().counting_cost_s, 0);
}

TEST(Tracer, clocks_of_a_recording_are_those_of_the_system) {
  Tracer tracer(100);
  const int64_t before = now_ns();
  tracer.start();
  const Recording recording = tracer.take();
  EXPECT_GE(recording.begin_ns, before);
  EXPECT_LE(recording.end_ns, now_ns());
  const auto told_s = [&] { return 1e-9 * double(now_ns() + recording.realtime_ns); };
  const double told_before_s = told_s();
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  const double realtime_s = double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  EXPECT_LT(told_before_s, realtime_s + 1);
  EXPECT_GT(told_s(), realtime_s - 1);
  EXPECT_GT(recording.span_cost_s, 0);
}

}  // namespace
}  // namespace maglev::trace
