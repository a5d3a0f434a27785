#include "verbs/play/signals.h"

#include <unistd.h>

namespace maglev {
namespace {

constexpr int kSignals[3] = {SIGINT, SIGTERM, SIGHUP};
constexpr char kShowCursor[] = "\x1b[?25h\x1b[0m\n";

volatile std::sig_atomic_t first_signal = 0;
volatile std::sig_atomic_t terminal_fd = -1, cursor_fd = -1;
termios terminal_settings;

void on_signal(int signal) {
  if (first_signal == 0) {
    first_signal = signal;
    return;
  }
  if (terminal_fd >= 0) tcsetattr(terminal_fd, TCSANOW, &terminal_settings);
  if (cursor_fd >= 0 && write(cursor_fd, kShowCursor, sizeof kShowCursor - 1) < 0) _exit(1);
  _exit(128 + signal);
}

}  // namespace

LeaveOnSignal::LeaveOnSignal() {
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &action, &before_[i]);
}

LeaveOnSignal::~LeaveOnSignal() {
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int LeaveOnSignal::signal() const { return first_signal; }

void restore_terminal_on_signals(int fd, const termios& settings) {
  terminal_settings = settings;
  terminal_fd = fd;
}
void forget_terminal() { terminal_fd = -1; }
void show_cursor_on_signals(int fd) { cursor_fd = fd; }

}  // namespace maglev
