#pragma once
// What the system's signals ask of a run: save and leave, or save and go on. A broken pipe and a
// file that may not grow are answered where they are written to, and end nothing.

#include <atomic>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace maglev {

/// What `maglev tell` sends with its signals: who asks so may ask again, and means the same.
constexpr int kAskedByName = 0x7e11;
bool asked_by_name(const siginfo_t& from);

/// Tells requests to end apart: who tells a process and then its group (`timeout`), or a process
/// and its parent that passes it on (batch systems), sends it two signals for one request. For
/// handlers of signals.
class EndRequests {
 public:
  /// Signals within so many seconds are one request.
  static constexpr double kOne_s = 0.5;

  /// A signal came: whether it is a request of its own.
  bool is_new();
  /// Whatever comes next is one.
  void forget() { last_s_ = -kOne_s, any_ = false; }
  /// Whether any of them had a request since one forgot, or the process began.
  static bool any() { return any_; }

 private:
  static inline std::atomic<bool> any_{false};
  std::atomic<double> last_s_{-kOne_s};  ///< by steady_s(), of the last request
};

/// While one lives: SIGINT, SIGTERM, SIGQUIT, SIGHUP and SIGXCPU (a limit of processor time) ask
/// for a save and an end, a second request by one of the first three leaves at once, where both are
/// of the process that started this one, or neither is (asked_by_name is no second one); SIGUSR1 asks for a save, SIGUSR2 for a
/// trace; SIGPIPE and SIGXFSZ are ignored. A SIGHUP that was ignored before stays so (nohup). One at
/// a time.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  /// Whether an end was asked for.
  static bool leave();
  /// Whether a signal asked for it, also when the guard has gone: until the next one.
  static bool signalled();
  /// "signal 15 (Terminated)": which one did; empty: none.
  static std::string asked_by();
  /// Asks for a save and an end as a signal does, on any thread: for hooks.
  static void ask_to_leave();
  /// Whether one asked for a save since the last call.
  static bool take_save();
  /// Whether one asked for a trace since the last call.
  static bool take_trace();

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// For a program that does one thing and ends, as it begins: SIGINT, SIGTERM, SIGQUIT and SIGHUP end
/// it as they always do, where no guard takes them; but a program that was asked to end already is on
/// its way out, and the second signal of that request does not kill it there, instead of the status
/// that it would end with.
void expect_late_signals();

}  // namespace maglev
