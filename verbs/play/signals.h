#pragma once
// Leaving a game by a signal: the first one ends it in order, a second leaves at once, and either
// way the terminal is as it was.

#include <csignal>
#include <termios.h>

namespace maglev {

/// Catches SIGINT, SIGTERM and SIGHUP while it lives. One at a time.
class LeaveOnSignal {
 public:
  LeaveOnSignal();
  ~LeaveOnSignal();
  LeaveOnSignal(const LeaveOnSignal&) = delete;
  LeaveOnSignal& operator=(const LeaveOnSignal&) = delete;

  /// The first signal that came; 0: none yet.
  int signal() const;

 private:
  struct sigaction before_[3];
};

/// What a second signal puts back before it leaves: these settings of the terminal `fd`.
void restore_terminal_on_signals(int fd, const termios& settings);
void forget_terminal();
/// A second signal also shows the cursor again, on `fd`; -1: no longer.
void show_cursor_on_signals(int fd);

}  // namespace maglev
