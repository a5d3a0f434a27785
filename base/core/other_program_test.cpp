#include "base/core/other_program.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>

namespace maglev {
namespace {

using namespace std::chrono_literals;

TEST(OtherProgram, is_seen_at_work_as_long_as_it_runs) {
  const int before = use_of_other_programs().running;
  OtherProgram busy("/bin/sh", {"-c", "while :; do :; done"}, "[test] ");
  EXPECT_EQ(use_of_other_programs().running, before + 1);
  // the kernel counts by its clock
  double used_s = 0;
  for (int i = 0; i < 4000 && !(used_s > 0.05); ++i) {
    std::this_thread::sleep_for(50ms);
    used_s = use_of_other_programs().on_processor_s;
    if (std::isnan(used_s) && i > 20) GTEST_SKIP() << "this kernel does not tell";
  }
  EXPECT_GT(used_s, 0.05);
  const std::vector<trace::ThreadUse> threads = threads_of_other_programs();
  EXPECT_TRUE(std::ranges::any_of(threads, [&](const trace::ThreadUse& thread) {
    return thread.tid == busy.pid() && thread.on_processor > 0;
  }));
  // a shell that has begun has some memory of its own
  EXPECT_GT(busy.resident(), 1 << 12);
  EXPECT_LT(busy.resident(), 1 << 26);
  EXPECT_GE(use_of_other_programs().resident, busy.resident() / 2);
  busy.kill();
  EXPECT_EQ(use_of_other_programs().running, before);
}

}  // namespace
}  // namespace maglev
