#include "base/core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/core/error.h"

namespace maglev {
namespace {

TEST(ThreadPool, runs_every_block_once_in_each_of_many_rounds) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> times(97);
    for (int round = 1; round <= 3000; ++round) {
      // rounds of all sizes follow each other closely, so that a late worker meets the next one
      const int64_t blocks = 1 + round % 97;
      std::fill(times.begin(), times.end(), 0);
      pool.run(blocks, [&](int64_t b) { times[size_t(b)] += 1; });
      for (int64_t b = 0; b < 97; ++b) ASSERT_EQ(times[size_t(b)], b < blocks) << "round " << round;
    }
  }
}

TEST(ThreadPool, sees_what_the_caller_wrote_before_and_shows_what_blocks_wrote) {
  ThreadPool pool(3);
  std::vector<uint64_t> value(64, 0);
  std::vector<uint64_t> last(64, 0);
  for (uint64_t round = 0; round < 2000; ++round) {
    // each block reads what another thread may have written in the round before
    last = value;
    pool.run(64, [&](int64_t b) { value[size_t(b)] = last[size_t(63 - b)] * 3 + round; });
  }
  uint64_t expected = 0;
  for (uint64_t round = 0; round < 2000; ++round) expected = expected * 3 + round;
  for (uint64_t v : value) EXPECT_EQ(v, expected);
}

TEST(ThreadPool, rethrows_a_block_s_exception_after_the_others_and_works_again) {
  ThreadPool pool(3);
  std::atomic<int> ran{0};
  auto work = [&](int64_t b) {
    ran += 1;
    if (b == 7) throw std::runtime_error("block 7");
  };
  EXPECT_THROW(pool.run(20, work), std::runtime_error);
  EXPECT_EQ(ran, 20);
  pool.run(20, [&](int64_t) { ran += 1; });
  EXPECT_EQ(ran, 40);
}

// leaves with status 0 where a pool that the system does not give all threads says so
[[noreturn]] void ask_for_too_many() {
  // a hang is no answer
  ::alarm(200);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t some = pages * rlim_t(::sysconf(_SC_PAGESIZE)) + (64 << 20);
  const rlimit limit{.rlim_cur = some, .rlim_max = some};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
  try {
    ThreadPool pool(256);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    ::_exit(0);
  }
  ::_exit(1);
}

TEST(ThreadPool, threads_that_cannot_be_made_are_one_error_and_no_hang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ask_for_too_many(), testing::ExitedWithCode(0),
              "of 256 cannot be made: .*threads=<n>");
}

}  // namespace
}  // namespace maglev
