#include "base/trace/thread_use.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/folder.h"

namespace maglev::trace {
namespace {

TEST(ThreadUse, is_read_from_what_the_kernel_says_of_each_thread) {
  const std::string process = test_folder() + "/process";
  std::filesystem::create_directories(process + "/task/12");
  std::ofstream(process + "/task/12/schedstat") << "9000 70 4\n";
  // a name with what would end it
  std::ofstream(process + "/task/12/stat")
      << "12 (a) b) R 1 1 1 0 -1 0 345 0 0 0 2 1 0 0 20 0 1 0 0 0 0\n";
  std::ofstream(process + "/task/12/status")
      << "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
  const auto uses = use_of_threads(process);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].tid, 12);
  EXPECT_EQ(uses[0].on_processor, 9000);
  EXPECT_EQ(uses[0].queued, 70);
  EXPECT_EQ(uses[0].in_kernel, 3000);
  EXPECT_EQ(uses[0].faults, 345);
  EXPECT_EQ(uses[0].gave_up, 5);
  EXPECT_EQ(uses[0].taken_away, 6);
}

TEST(ThreadUse, between_two_readings_is_that_of_each_thread_since) {
  const std::vector<ThreadUse> begin{{.tid = 1, .on_processor = 10, .faults = 3}},
      end{{.tid = 1, .on_processor = 25, .queued = 2, .faults = 3}, {.tid = 2, .gave_up = 4}};
  const auto between = use_between(begin, end);
  ASSERT_EQ(between.size(), 2u);
  EXPECT_EQ(between[0].on_processor, 15);
  EXPECT_EQ(between[0].queued, 2);
  EXPECT_EQ(between[0].faults, 0);
  EXPECT_EQ(between[1].gave_up, 4);
}

TEST(ThreadUse, tells_a_thread_that_sleeps_from_one_that_runs) {
  const auto begin = use_of_threads();
  const auto gave_up = [&]() -> int64_t {
    for (const ThreadUse& use : use_between(begin, use_of_threads()))
      if (use.tid == gettid()) return use.gave_up;
    return -1;
  };
  // a sleep that was over before the processor was given up is none
  for (int i = 0; i < 1000 && gave_up() < 20; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(gave_up(), 20) << "-1: this thread is not among those of its process";
}

}  // namespace
}  // namespace maglev::trace
