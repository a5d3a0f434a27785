#include "engine/train/signals.h"

#include <atomic>
#include <cstring>
#include <unistd.h>

#include "base/core/clock.h"

namespace maglev {
namespace {

// who asked for an end, or the number of the signal that did: a hook does not speak for a signal
constexpr int kNobody = 0, kHook = -1;
std::atomic<int> leaving{kNobody};
EndRequests requests;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<double>::is_always_lock_free,
              "handlers write them");
volatile std::sig_atomic_t impatient = 0, save_wanted = 0, trace_wanted = 0;

void on_end(int signal) {
  // the first one is why
  if (leaving <= kNobody) leaving = signal;
  // a terminal that goes away sends SIGHUP more than once, and behind another, and a limit is told
  // every second: that is no impatience
  if (signal == SIGHUP || signal == SIGXCPU) return;
  if (requests.is_new()) impatient = impatient + 1;
  if (impatient > 1) ::_exit(128 + signal);
}

// whether it was set, and is no more
bool take(volatile std::sig_atomic_t& wanted) {
  if (wanted == 0) return false;
  wanted = 0;
  return true;
}

void on_save(int) { save_wanted = 1; }
void on_trace(int) { trace_wanted = 1; }

}  // namespace

bool EndRequests::is_new() {
  const double now_s = steady_s();
  double last_s = last_s_;
  // of handlers that run at once, on several threads, one has the request
  return now_s - last_s > kOne_s && last_s_.compare_exchange_strong(last_s, now_s);
}

SignalGuard::SignalGuard() {
  leaving = kNobody;
  impatient = 0;
  requests.forget();
  save_wanted = 0;
  trace_wanted = 0;
  const auto handle = [this](int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    struct sigaction before {};
    ::sigaction(signal, &action, &before);
    before_.emplace_back(signal, before);
    // nohup
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) ::sigaction(signal, &before, nullptr);
  };
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGXCPU}) handle(signal, on_end);
  handle(SIGUSR1, on_save);
  handle(SIGUSR2, on_trace);
  for (int signal : {SIGPIPE, SIGXFSZ}) handle(signal, SIG_IGN);
}

SignalGuard::~SignalGuard() {
  for (const auto& [signal, before] : before_) ::sigaction(signal, &before, nullptr);
}

bool SignalGuard::leave() { return leaving != kNobody; }
bool SignalGuard::signalled() { return leaving > kNobody; }
std::string SignalGuard::asked_by() {
  const int signal = leaving;
  if (signal <= kNobody) return "";
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}
void SignalGuard::ask_to_leave() {
  int before = kNobody;
  leaving.compare_exchange_strong(before, kHook);
}

bool SignalGuard::take_save() { return take(save_wanted); }
bool SignalGuard::take_trace() { return take(trace_wanted); }

}  // namespace maglev
