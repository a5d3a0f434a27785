#pragma once
// A picture drawn again and again at the same place of a terminal: two pixels a character, the
// upper one as the colour of a half block, the lower one as its background.

#include <string>

#include "base/core/terminal.h"
#include "base/picture/canvas.h"

namespace maglev {

/// Escape sequences that draw the canvas, width() columns by height() / 2 rows, each row ended with
/// "\r\n". Colours are told once where they repeat.
std::string half_blocks(const Canvas& canvas);

class Screen {
 public:
  /// The terminal behind `fd` must be live, in colour and UTF-8. `note` is a line that stays below
  /// all others; empty: none.
  explicit Screen(int fd, std::string note = "");
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Pixels that fit now above the lines of text, times the factor that reduced() takes off again.
  static constexpr int kFiner = 2;
  Canvas canvas() const;
  /// Over the last drawing; `below` is one line.
  void draw(const Canvas& finer, const std::string& below);

 private:
  void write(const std::string& text) const;

  int fd_;
  std::string note_;
  int lines_ = 0;  ///< of the last drawing
  int columns_ = 0;
};

}  // namespace maglev
