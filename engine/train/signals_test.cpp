#include "engine/train/signals.h"

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
