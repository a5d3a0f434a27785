#include "base/trace/open_spans.h"

#include <algorithm>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "base/trace/span.h"

namespace maglev::trace {
namespace {

// what the thread of that name is in
std::vector<std::string> open_of(const std::string& name) {
  for (const ThreadNow& thread : threads_now())
    if (thread.name == name) return {thread.open.begin(), thread.open.end()};
  return {"no such thread"};
}

TEST(OpenSpans, are_known_from_outside_though_nobody_records) {
  ASSERT_EQ(recording.load(), nullptr);
  // a thread is known once it has had one
  { const auto span = stage("before"); }
  std::latch begun(1), seen(1);
  std::jthread other([&] {
    name_thread("other");
    const auto outer = stage("outer");
    { const auto over = stage("over"); }
    const auto inner = wait("inner", "io");
    begun.count_down(), seen.wait();
  });
  begun.wait();
  EXPECT_EQ(open_of("other"), (std::vector<std::string>{"outer", "inner"}));
  EXPECT_EQ(open_of("main"), (std::vector<std::string>{}));
  seen.count_down();
  other.join();
  EXPECT_EQ(open_of("other"), (std::vector<std::string>{"no such thread"}));
}

TEST(OpenSpans, as_they_pass_a_number_grows) {
  const uint64_t before = spans_passed();
  EXPECT_EQ(spans_passed(), before);
  { const auto span = stage("s"); }
  EXPECT_EQ(spans_passed(), before + 2);
}

TEST(OpenSpans, deeper_ones_than_are_kept_end_as_they_began) {
  const auto nest = [](const auto& self, size_t depth) -> void {
    if (depth == 0) {
      EXPECT_EQ(open_of("main").size(), OpenSpans::kDeepest);
      return;
    }
    const auto span = stage("deep");
    self(self, depth - 1);
  };
  nest(nest, OpenSpans::kDeepest + 5);
  EXPECT_EQ(open_of("main").size(), 0u);
}

TEST(OpenSpans, more_threads_than_rows_harm_nothing) {
  constexpr size_t kThreads = OpenSpans::kMostThreads + 20;
  std::latch begun(kThreads), seen(1);
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      const auto span = stage("many");
      begun.count_down(), seen.wait();
    });
  begun.wait();
  EXPECT_LE(threads_now().size(), OpenSpans::kMostThreads);
  seen.count_down();
  threads.clear();
  // their rows are free again
  std::jthread([] {
    name_thread("later");
    const auto span = stage("s");
    EXPECT_EQ(open_of("later"), (std::vector<std::string>{"s"}));
  }).join();
}

}  // namespace
}  // namespace maglev::trace
