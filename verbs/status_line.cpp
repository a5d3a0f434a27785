#include "verbs/status_line.h"

#include <cstdio>
#include <unistd.h>

namespace maglev::verbs {

StatusLine::StatusLine() : terminal_(probe_terminal(STDERR_FILENO)) {}

void StatusLine::show(const std::string& text) {
  if (!live()) return;
  std::fprintf(stderr, "\r\x1b[K%s", fit(text, terminal_.columns - 1, terminal_.unicode).c_str());
  shown_ = true;
}

void StatusLine::clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

}  // namespace maglev::verbs
