#include "engine/train/signals.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/core/clock.h"

namespace maglev {
namespace {

TEST(EndRequests, signals_that_come_together_are_one) {
  EndRequests requests;
  // together as far as this thread went on between them
  for (bool together = false; !together;) {
    requests.forget();
    const double begin_s = steady_s();
    EXPECT_TRUE(requests.is_new());
    const bool second = requests.is_new();
    together = steady_s() - begin_s < EndRequests::kOne_s;
    EXPECT_FALSE(together && second);
  }
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
  int alone = 0, apart = 0;
  for (int r = 1; r <= kRounds; ++r) {
    requests.forget();
    fresh = 0;
    const double begin_s = steady_s();
    round = r;
    fresh += requests.is_new();
    reach(heard, r);
    // where a thread had to wait for a processor they are two requests
    if (steady_s() - begin_s > EndRequests::kOne_s) ++apart;
    else alone += fresh == 1;
  }
  EXPECT_EQ(alone, kRounds - apart);
}

TEST(SignalGuard, says_which_signal_asked_for_an_end_and_a_hook_is_none) {
  {
    const SignalGuard signals;
    SignalGuard::ask_to_leave();
    EXPECT_TRUE(SignalGuard::leave());
    EXPECT_EQ(SignalGuard::asked_by(), "");
    // a terminal that goes away besides asks for no more
    for (int signal : {SIGTERM, SIGHUP}) std::raise(signal);
    EXPECT_EQ(SignalGuard::asked_by(), "signal 15 (Terminated)");
  }
  EXPECT_TRUE(SignalGuard::signalled()) << "also when the guard has gone";
  const SignalGuard next;
  EXPECT_FALSE(SignalGuard::leave());
}

// a process that was told to end, sometimes by who started it and sometimes by somebody else
TEST(SignalGuard, two_who_ask_once_each_are_not_impatient_and_one_who_asks_twice_is) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const SignalGuard signals;
    // says that it listens, and that it has heard one
    sigset_t term, none;
    ::sigemptyset(&none), ::sigemptyset(&term), ::sigaddset(&term, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &term, nullptr);
    for (;; ::sigsuspend(&none))
      if (::write(ready[1], "!", 1) != 1) ::_exit(1);
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto wait = [&] {
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::duration<double>(1.2 * EndRequests::kOne_s));
  };
  const std::string by_another = "kill -TERM " + std::to_string(child);
  int status = 0;
  EXPECT_EQ(std::system(by_another.c_str()), 0);
  wait();
  ::kill(child, SIGTERM);
  wait();
  EXPECT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it left though nobody asked twice";
  ::kill(child, SIGTERM);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM) << status;
  for (int end : ready) ::close(end);
}

// how a child ends that does `work`
template <class Work>
int status_of(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    expect_late_signals();
    // what other tests were asked is forgotten
    { const SignalGuard fresh; }
    work();
    ::_exit(130);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(SignalGuard, who_asks_by_name_may_ask_again_and_is_none_of_two_who_are_impatient) {
  const auto apart = [] {
    std::this_thread::sleep_for(std::chrono::duration<double>(1.2 * EndRequests::kOne_s));
  };
  const int patient = status_of([&] {
    const SignalGuard signals;
    for (int i = 0; i < 2; ++i, apart())
      ::sigqueue(::getpid(), SIGTERM, sigval{.sival_int = kAskedByName});
    std::raise(SIGTERM);
    if (!SignalGuard::leave()) ::_exit(1);
  });
  EXPECT_TRUE(WIFEXITED(patient) && WEXITSTATUS(patient) == 130) << patient;
  const int other_value = status_of([&] {
    const SignalGuard signals;
    for (int i = 0; i < 2; ++i, apart()) ::sigqueue(::getpid(), SIGTERM, sigval{.sival_int = 1});
  });
  EXPECT_TRUE(WIFEXITED(other_value) && WEXITSTATUS(other_value) == 128 + SIGTERM) << other_value;
}

TEST(ExpectLateSignals, a_program_on_its_way_out_is_not_killed_by_the_second_of_one_request) {
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) {
    const int killed = status_of([&] { std::raise(signal); });
    EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == signal) << killed;
    const int late = status_of([&] {
      {
        const SignalGuard guard;
        std::raise(signal);
      }
      std::raise(signal);
    });
    // half a second later it is a request of its own, which leaves by a status too
    EXPECT_TRUE(WIFEXITED(late) && (WEXITSTATUS(late) == 130 || WEXITSTATUS(late) == 128 + signal))
        << late;
  }
  // what hears requests in another way
  const int late = status_of([&] {
    EndRequests requests;
    requests.is_new();
    std::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFEXITED(late) && WEXITSTATUS(late) == 130) << late;
}

}  // namespace
}  // namespace maglev
