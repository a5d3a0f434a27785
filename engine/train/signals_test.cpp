#include "engine/train/signals.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

namespace maglev {
namespace {

TEST(EndRequests, signals_that_come_together_are_one) {
  EndRequests requests;
  EXPECT_TRUE(requests.is_new());
  EXPECT_FALSE(requests.is_new());
  std::this_thread::sleep_for(std::chrono::duration<double>(1.2 * EndRequests::kOne_s));
  EXPECT_TRUE(requests.is_new());
  requests.forget();
  EXPECT_TRUE(requests.is_new());
}

// spins, so that two threads go on within nanoseconds of each other
void reach(const std::atomic<int>& count, int value) {
  for (int spins = 0; count < value; ++spins)
    if (spins > 20000) std::this_thread::yield();
}

TEST(EndRequests, of_two_that_two_threads_hear_at_once_one_is_new) {
  constexpr int kRounds = 20000;
  EndRequests requests;
  std::atomic<int> round = 0, heard = 0, fresh = 0;
  std::jthread other([&] {
    for (int r = 1; r <= kRounds; ++r) {
      reach(round, r);
      fresh += requests.is_new();
      ++heard;
    }
  });
  int alone = 0;
  for (int r = 1; r <= kRounds; ++r) {
    requests.forget();
    fresh = 0;
    round = r;
    fresh += requests.is_new();
    reach(heard, r);
    alone += fresh == 1;
  }
  EXPECT_EQ(alone, kRounds);
}

TEST(SignalGuard, says_which_signal_asked_for_an_end_and_a_hook_is_none) {
  {
    const SignalGuard signals;
    SignalGuard::ask_to_leave();
    EXPECT_TRUE(SignalGuard::leave());
    EXPECT_EQ(SignalGuard::asked_by(), "");
    // the second is the same request
    for (int signal : {SIGTERM, SIGINT}) std::raise(signal);
    EXPECT_EQ(SignalGuard::asked_by(), "signal 15 (Terminated)");
  }
  EXPECT_TRUE(SignalGuard::signalled()) << "also when the guard has gone";
  const SignalGuard next;
  EXPECT_FALSE(SignalGuard::leave());
}

}  // namespace
}  // namespace maglev
