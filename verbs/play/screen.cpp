#include "verbs/play/screen.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include "verbs/play/signals.h"

namespace maglev {
namespace {

std::string colour(int which, Rgb c) {
  char text[32];
  std::snprintf(text, sizeof text, "\x1b[%d;2;%d;%d;%dm", which, c.r, c.g, c.b);
  return text;
}

}  // namespace

std::string half_blocks(const Canvas& canvas) {
  std::string text;
  for (int y = 0; y + 1 < canvas.height(); y += 2) {
    for (int x = 0; x < canvas.width(); ++x) {
      const Rgb upper = canvas.at(x, y), lower = canvas.at(x, y + 1);
      if (x == 0 || upper != canvas.at(x - 1, y)) text += colour(38, upper);
      if (x == 0 || lower != canvas.at(x - 1, y + 1)) text += colour(48, lower);
      text += "▀";
    }
    text += "\x1b[0m\r\n";
  }
  return text;
}

Screen::Screen(int fd, std::string note) : fd_(fd), note_(std::move(note)) {
  show_cursor_on_signals(fd_);
  write("\x1b[?25l");
}

Screen::~Screen() {
  write("\x1b[?25h\x1b[0m");
  show_cursor_on_signals(-1);
}

Canvas Screen::canvas() const {
  const Terminal terminal = probe_terminal(fd_);
  // about 6:5 of square pixels, which is what environments draw
  const int rows = std::clamp(terminal.rows - (note_.empty() ? 2 : 3), 4, 40);
  const int columns = std::clamp(terminal.columns - 1, 8, rows * 2 * 6 / 5);
  return Canvas(kFiner * columns, kFiner * 2 * rows);
}

void Screen::draw(const Canvas& finer, const std::string& below) {
  const Canvas canvas = finer.reduced(kFiner);
  const int lines = canvas.height() / 2 + (note_.empty() ? 1 : 2);
  std::string text;
  // a terminal that changed its size is begun anew
  if (canvas.width() != columns_ || lines != lines_) text += "\x1b[2J\x1b[H";
  else text += "\x1b[" + std::to_string(lines_) + "A\r";
  text += half_blocks(canvas);
  const int width = std::max(canvas.width(), probe_terminal(fd_).columns - 1);
  text += fit(below, width, true) + "\x1b[K\r\n";
  if (!note_.empty()) text += fit(note_, width, true) + "\x1b[K\r\n";
  lines_ = lines;
  columns_ = canvas.width();
  write(text);
}

void Screen::write(const std::string& text) const {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // nobody watches any more
    done += size_t(n);
  }
}

}  // namespace maglev
