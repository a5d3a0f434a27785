#pragma once
// Keys of a terminal as a game wants them: which are held down now. A terminal says only that a key
// was pressed or repeats, so each counts as held for a moment after that.

#include <chrono>
#include <map>
#include <set>
#include <string_view>
#include <termios.h>

namespace maglev {

/// What the keys mean, whatever layout: arrows and WASD are directions.
/// Digit n is Key(int(Key::digit) + n).
enum class Key { left, right, up, down, turn_left, turn_right, fire, quit, none, digit };

/// The terminal without echo and line ends while it lives; as it was before afterwards, also when
/// SIGINT, SIGTERM or SIGHUP come. One at a time.
class Keyboard {
 public:
  /// `fd` must be a terminal.
  explicit Keyboard(int fd);
  ~Keyboard();
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;

  /// Reads what was typed since.
  void poll();
  bool held(Key key) const;
  /// Whether it was pressed since forget(), and whether what was is complete: keys that are meant
  /// together come within a moment.
  bool pressed(Key key) const { return pressed_.contains(key); }
  bool pressed_all() const;
  void forget() { pressed_.clear(); }

  /// The key at the front of what a terminal sent; removes it from `typed`.
  static Key take(std::string_view& typed);

 private:
  using Clock = std::chrono::steady_clock;

  int fd_;
  termios before_;
  std::map<Key, Clock::time_point> until_;
  std::set<Key> pressed_;
  Clock::time_point first_pressed_;  ///< of those
};

}  // namespace maglev
