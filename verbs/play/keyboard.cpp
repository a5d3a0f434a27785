#include "verbs/play/keyboard.h"

#include <cctype>
#include <unistd.h>

#include "verbs/play/signals.h"

namespace maglev {
namespace {

// longer than a terminal's repeat takes, short enough for a tap
constexpr auto kHold = std::chrono::milliseconds(150);
// within which two fingers come down
constexpr auto kTogether = std::chrono::milliseconds(60);

}  // namespace

Keyboard::Keyboard(int fd) : fd_(fd), before_{} {
  tcgetattr(fd_, &before_);
  restore_terminal_on_signals(fd_, before_);
  termios raw = before_;
  raw.c_lflag &= tcflag_t(~(ICANON | ECHO));
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  // a stopped game would leave the terminal as it is now
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;
  tcsetattr(fd_, TCSANOW, &raw);
}

Keyboard::~Keyboard() {
  tcsetattr(fd_, TCSAFLUSH, &before_);
  forget_terminal();
}

void Keyboard::poll() {
  char bytes[256];
  const ssize_t got = read(fd_, bytes, sizeof bytes);
  if (got <= 0) return;
  std::string_view typed(bytes, size_t(got));
  while (!typed.empty())
    if (const Key key = take(typed); key != Key::none) {
      until_[key] = Clock::now() + kHold;
      if (pressed_.empty()) first_pressed_ = Clock::now();
      pressed_.insert(key);
    }
}

bool Keyboard::pressed_all() const {
  return !pressed_.empty() && Clock::now() - first_pressed_ >= kTogether;
}

bool Keyboard::held(Key key) const {
  const auto at = until_.find(key);
  return at != until_.end() && Clock::now() < at->second;
}

Key Keyboard::take(std::string_view& typed) {
  const char first = typed.front();
  typed.remove_prefix(1);
  // arrows come as three bytes, ESC [ A or ESC O A
  if (first == '\x1b' && typed.size() >= 2 && (typed[0] == '[' || typed[0] == 'O')) {
    const char which = typed[1];
    typed.remove_prefix(2);
    return which == 'A'   ? Key::up
           : which == 'B' ? Key::down
           : which == 'C' ? Key::right
           : which == 'D' ? Key::left
                          : Key::none;
  }
  if (first >= '0' && first <= '9') return Key(int(Key::digit) + (first - '0'));
  switch (std::tolower(static_cast<unsigned char>(first))) {
    case 'a':
      return Key::left;
    case 'd':
      return Key::right;
    case 'w':
      return Key::up;
    case 's':
      return Key::down;
    case 'q':
      return Key::turn_left;
    case 'e':
      return Key::turn_right;
    case ' ':
      return Key::fire;
    case '\x1b':
      return Key::quit;
    default:
      return Key::none;
  }
}

}  // namespace maglev
