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
// Who asks twice is impatient, not two who ask once each: a batch system tells every process of a
// job, and the parent of several runs passes on what it was told whenever it comes to it.
struct Asker {
  EndRequests requests;
  std::atomic<int> times{0};

  // whether this was the second time
  bool asks_again() { return requests.is_new() ? ++times > 1 : times > 1; }
};
Asker the_parent, others;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<double>::is_always_lock_free,
              "handlers write them");
volatile std::sig_atomic_t save_wanted = 0, trace_wanted = 0;

void on_end(int signal, siginfo_t* from, void*) {
  // the first one is why
  if (leaving <= kNobody) leaving = signal;
  // a terminal that goes away sends SIGHUP more than once, and behind another, and a limit is told
  // every second: that is no impatience
  if (signal == SIGHUP || signal == SIGXCPU || asked_by_name(*from)) return;
  Asker& asker = from->si_pid == ::getppid() ? the_parent : others;
  if (asker.asks_again()) ::_exit(128 + signal);
}

// where nothing takes signals, or does no more
void on_late(int signal, siginfo_t* from, void* context) {
  if (SignalGuard::signalled() || EndRequests::any()) return on_end(signal, from, context);
  // reaches the program once this returns, and ends it
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct sigaction calls(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  return action;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler == SIG_IGN;
}

// whether it was set, and is no more
bool take(volatile std::sig_atomic_t& wanted) {
  if (wanted == 0) return false;
  wanted = 0;
  return true;
}

void on_save(int, siginfo_t*, void*) { save_wanted = 1; }
void on_trace(int, siginfo_t*, void*) { trace_wanted = 1; }

}  // namespace

bool asked_by_name(const siginfo_t& from) {
  return from.si_code == SI_QUEUE && from.si_value.sival_int == kAskedByName;
}

bool EndRequests::is_new() {
  const double now_s = steady_s();
  double last_s = last_s_;
  // of handlers that run at once, on several threads, one has the request
  const bool is_new = now_s - last_s > kOne_s && last_s_.compare_exchange_strong(last_s, now_s);
  if (is_new) any_ = true;
  return is_new;
}

void expect_late_signals() {
  const struct sigaction late = calls(on_late);
  // what is ignored stays so: a shell wants that of what it runs in the background
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP})
    if (!is_ignored(signal)) ::sigaction(signal, &late, nullptr);
}

SignalGuard::SignalGuard() {
  leaving = kNobody;
  for (Asker* asker : {&the_parent, &others}) asker->requests.forget(), asker->times = 0;
  save_wanted = 0;
  trace_wanted = 0;
  const auto take_over = [this](int signal, const struct sigaction& action) {
    // nohup
    if (signal == SIGHUP && is_ignored(signal)) return;
    struct sigaction before {};
    ::sigaction(signal, &action, &before);
    before_.emplace_back(signal, before);
  };
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGXCPU}) take_over(signal, calls(on_end));
  take_over(SIGUSR1, calls(on_save));
  take_over(SIGUSR2, calls(on_trace));
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  for (int signal : {SIGPIPE, SIGXFSZ}) take_over(signal, ignored);
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
