#pragma once
// A line of text on a picture, in letters of five by seven dots.

#include <string_view>

#include "base/picture/canvas.h"

namespace maglev {

/// Dots from one character to the next, and a line's height.
constexpr int kGlyphStep = 6, kGlyphHeight = 7;

/// Writes `text` from `upper_left` on, `dot` pixels a dot; characters that have no picture as
/// question marks.
void write_text(Canvas& canvas, PixelPoint upper_left, std::string_view text, int dot, Rgb colour);

/// Pixels a line is wide.
inline int text_width(std::string_view text, int dot) {
  return dot * (kGlyphStep * int(text.size()) - 1);
}

}  // namespace maglev
