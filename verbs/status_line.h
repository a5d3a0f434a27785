#pragma once
// One line on standard error that is drawn over itself while a verb works; nothing where there is
// no terminal that can redraw.

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

}  // namespace maglev::verbs
