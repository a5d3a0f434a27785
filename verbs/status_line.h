#pragma once
// One line on standard error that is drawn over itself while a verb works; nothing where there is
// no terminal that can redraw.

#include <cstdint>
#include <string>

#include "base/core/terminal.h"

namespace maglev::verbs {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Whether there is anywhere to show it.
  bool live() const { return terminal_.live; }
  void show(const std::string& text);
  /// Before anything else is printed.
  void clear();

 private:
  const Terminal terminal_;
  bool shown_ = false;
};

/// How far a count of things has come after `seconds`: "proving: 12.8k of 1.14M, 1,612/s, 11:38
/// left".
std::string count_line(const std::string& what, int64_t done, int64_t of, double seconds);

/// A status line of a count, drawn at most ten times a second.
class CountLine {
 public:
  explicit CountLine(std::string what);
  /// One thread at a time.
  void show(int64_t done, int64_t of);
  /// Before anything else is printed.
  void clear() { line_.clear(); }

 private:
  StatusLine line_;
  const std::string what_;
  const double begin_s_;
  double shown_s_ = 0;
};

}  // namespace maglev::verbs
