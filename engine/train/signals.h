#pragma once
// What the system's signals ask of a run: save and leave, or save and go on. A broken pipe and a
// file that may not grow are answered where they are written to, and end nothing.

#include <csignal>
#include <utility>
#include <vector>

namespace maglev {

/// While one lives: SIGINT, SIGTERM, SIGQUIT and SIGHUP ask for a save and an end, a second of the
/// first three leaves at once; SIGUSR1 asks for a save, SIGUSR2 for a trace; SIGPIPE and SIGXFSZ
/// are ignored. A SIGHUP that was ignored before stays so (nohup). One at a time.
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
  /// Asks for a save and an end as a signal does, on any thread: for hooks.
  static void ask_to_leave();
  /// Whether one asked for a save since the last call.
  static bool take_save();
  /// Whether one asked for a trace since the last call.
  static bool take_trace();

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace maglev
