#include "engine/train/signals.h"

#include <atomic>
#include <unistd.h>

namespace maglev {
namespace {

// who asked for an end: a hook does not speak for a signal
enum AskedBy { nobody, a_hook, a_signal };
std::atomic<int> leaving{nobody};
static_assert(std::atomic<int>::is_always_lock_free, "handlers write it");
volatile std::sig_atomic_t impatient = 0, save_wanted = 0, trace_wanted = 0;

void on_end(int signal) {
  leaving = a_signal;
  // a terminal that goes away sends SIGHUP more than once, and behind another: that is no
  // impatience
  if (signal == SIGHUP) return;
  impatient = impatient + 1;
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

SignalGuard::SignalGuard() {
  leaving = nobody;
  impatient = 0;
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
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) handle(signal, on_end);
  handle(SIGUSR1, on_save);
  handle(SIGUSR2, on_trace);
  for (int signal : {SIGPIPE, SIGXFSZ}) handle(signal, SIG_IGN);
}

SignalGuard::~SignalGuard() {
  for (const auto& [signal, before] : before_) ::sigaction(signal, &before, nullptr);
}

bool SignalGuard::leave() { return leaving != nobody; }
bool SignalGuard::signalled() { return leaving == a_signal; }
void SignalGuard::ask_to_leave() {
  int before = nobody;
  leaving.compare_exchange_strong(before, a_hook);
}

bool SignalGuard::take_save() { return take(save_wanted); }
bool SignalGuard::take_trace() { return take(trace_wanted); }

}  // namespace maglev
