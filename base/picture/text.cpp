#include "base/picture/text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>

namespace maglev {
namespace {

constexpr int kGlyphWidth = 5;

/// Rows from the top; of a row the left dot is worth 16, the right one 1.
struct Glyph {
  char character;
  uint8_t rows[kGlyphHeight];
};

// in the order of their characters
// clang-format off
constexpr Glyph kGlyphs[] = {
    {' ', {0, 0, 0, 0, 0, 0, 0}}, {'!', {4, 4, 4, 4, 4, 0, 4}}, {'#', {10, 10, 31, 10, 31, 10, 10}},
    {'%', {24, 25, 2, 4, 8, 19, 3}}, {'\'', {4, 4, 8, 0, 0, 0, 0}}, {'(', {2, 4, 8, 8, 8, 4, 2}},
    {')', {8, 4, 2, 2, 2, 4, 8}}, {'*', {0, 4, 21, 14, 21, 4, 0}}, {'+', {0, 4, 4, 31, 4, 4, 0}},
    {',', {0, 0, 0, 0, 12, 12, 4}}, {'-', {0, 0, 0, 31, 0, 0, 0}}, {'.', {0, 0, 0, 0, 0, 12, 12}},
    {'/', {0, 1, 2, 4, 8, 16, 0}}, {'0', {14, 17, 19, 21, 25, 17, 14}},
    {'1', {4, 12, 4, 4, 4, 4, 14}}, {'2', {14, 17, 1, 2, 4, 8, 31}},
    {'3', {31, 2, 4, 2, 1, 17, 14}}, {'4', {2, 6, 10, 18, 31, 2, 2}},
    {'5', {31, 16, 30, 1, 1, 17, 14}}, {'6', {6, 8, 16, 30, 17, 17, 14}},
    {'7', {31, 1, 2, 4, 8, 8, 8}}, {'8', {14, 17, 17, 14, 17, 17, 14}},
    {'9', {14, 17, 17, 15, 1, 2, 12}}, {':', {0, 12, 12, 0, 12, 12, 0}},
    {'<', {2, 4, 8, 16, 8, 4, 2}}, {'=', {0, 0, 31, 0, 31, 0, 0}}, {'>', {8, 4, 2, 1, 2, 4, 8}},
    {'?', {14, 17, 1, 2, 4, 0, 4}}, {'@', {14, 17, 1, 13, 21, 21, 14}},
    {'A', {14, 17, 17, 31, 17, 17, 17}}, {'B', {30, 17, 17, 30, 17, 17, 30}},
    {'C', {14, 17, 16, 16, 16, 17, 14}}, {'D', {30, 17, 17, 17, 17, 17, 30}},
    {'E', {31, 16, 16, 30, 16, 16, 31}}, {'F', {31, 16, 16, 30, 16, 16, 16}},
    {'G', {14, 17, 16, 23, 17, 17, 15}}, {'H', {17, 17, 17, 31, 17, 17, 17}},
    {'I', {14, 4, 4, 4, 4, 4, 14}}, {'J', {7, 2, 2, 2, 2, 18, 12}},
    {'K', {17, 18, 20, 24, 20, 18, 17}}, {'L', {16, 16, 16, 16, 16, 16, 31}},
    {'M', {17, 27, 21, 21, 17, 17, 17}}, {'N', {17, 17, 25, 21, 19, 17, 17}},
    {'O', {14, 17, 17, 17, 17, 17, 14}}, {'P', {30, 17, 17, 30, 16, 16, 16}},
    {'Q', {14, 17, 17, 17, 21, 18, 13}}, {'R', {30, 17, 17, 30, 20, 18, 17}},
    {'S', {15, 16, 16, 14, 1, 1, 30}}, {'T', {31, 4, 4, 4, 4, 4, 4}},
    {'U', {17, 17, 17, 17, 17, 17, 14}}, {'V', {17, 17, 17, 17, 17, 10, 4}},
    {'W', {17, 17, 17, 21, 21, 21, 10}}, {'X', {17, 17, 10, 4, 10, 17, 17}},
    {'Y', {17, 17, 17, 10, 4, 4, 4}}, {'Z', {31, 1, 2, 4, 8, 16, 31}},
    {'_', {0, 0, 0, 0, 0, 0, 31}}, {'|', {4, 4, 4, 4, 4, 4, 4}},};
// clang-format on

const Glyph& glyph_of(char character) {
  const char capital = char(std::toupper(static_cast<unsigned char>(character)));
  const auto found = std::ranges::lower_bound(kGlyphs, capital, {}, &Glyph::character);
  if (found != std::end(kGlyphs) && found->character == capital) return *found;
  return *std::ranges::lower_bound(kGlyphs, '?', {}, &Glyph::character);
}

}  // namespace

void write_text(Canvas& canvas, PixelPoint upper_left, std::string_view text, int dot, Rgb colour) {
  const float size = float(dot);
  for (size_t i = 0; i < text.size(); ++i) {
    const Glyph& glyph = glyph_of(text[i]);
    for (int y = 0; y < kGlyphHeight; ++y)
      for (int x = 0; x < kGlyphWidth; ++x) {
        if ((glyph.rows[y] >> (kGlyphWidth - 1 - x) & 1) == 0) continue;
        const PixelPoint at{upper_left.x + size * float(kGlyphStep * int(i) + x),
                            upper_left.y + size * float(y)};
        canvas.rectangle(at, {at.x + size, at.y + size}, colour);
      }
  }
}

}  // namespace maglev
