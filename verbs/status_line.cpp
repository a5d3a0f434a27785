#include "verbs/status_line.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include "base/core/clock.h"
#include "sinks/console/draw.h"

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

std::string count_line(const std::string& what, int64_t done, int64_t of, double seconds) {
  using sinks::console::count_text;
  const double rate = double(done) / seconds;
  return what + ": " + count_text(double(done)) + " of " + count_text(double(of)) + ", " +
         count_text(rate) + "/s, " + sinks::console::duration_text(double(of - done) / rate) +
         " left";
}

CountLine::CountLine(std::string what) : what_(std::move(what)), begin_s_(steady_s()) {}

void CountLine::show(int64_t done, int64_t of) {
  constexpr double kBetween_s = 0.1;
  const double now = steady_s();
  if (!line_.live() || done == 0 || now - shown_s_ < kBetween_s) return;
  shown_s_ = now;
  line_.show(count_line(what_, done, of, now - begin_s_));
}

}  // namespace maglev::verbs
