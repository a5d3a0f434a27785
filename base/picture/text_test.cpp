#include "base/picture/text.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace maglev {
namespace {

constexpr Rgb kInk{9, 9, 9};

std::string written(std::string_view text) {
  Canvas canvas(kGlyphStep * int(text.size()) - 1, kGlyphHeight);
  write_text(canvas, {0, 0}, text, 1, kInk);
  std::string rows;
  for (int y = 0; y < canvas.height(); ++y) {
    for (int x = 0; x < canvas.width(); ++x) rows += canvas.at(x, y) == kInk ? '#' : '.';
    rows += '\n';
  }
  return rows;
}

TEST(Text, draws_characters_side_by_side) {
  EXPECT_EQ(written("L1"),
            "#.......#..\n"
            "#......##..\n"
            "#.......#..\n"
            "#.......#..\n"
            "#.......#..\n"
            "#.......#..\n"
            "#####..###.\n");
}

TEST(Text, letters_all_differ_and_what_has_no_picture_is_a_question_mark) {
  std::set<std::string> pictures{written("?")};
  for (char letter = 'A'; letter <= 'Z'; ++letter) pictures.insert(written({&letter, 1}));
  for (char letter = 'a'; letter <= 'z'; ++letter) pictures.insert(written({&letter, 1}));
  EXPECT_EQ(pictures.size(), 1u + 2 * 26);
  EXPECT_EQ(written("~"), written("?"));
}

TEST(Text, is_as_wide_and_high_as_said) {
  Canvas canvas(100, 40);
  write_text(canvas, {3, 5}, "HH", 3, kInk);
  int right = 0, bottom = 0;
  for (int y = 0; y < 40; ++y)
    for (int x = 0; x < 100; ++x)
      if (canvas.at(x, y) == kInk) right = std::max(right, x + 1), bottom = std::max(bottom, y + 1);
  EXPECT_EQ(right, 3 + text_width("HH", 3));
  EXPECT_EQ(bottom, 5 + 3 * kGlyphHeight);
}

}  // namespace
}  // namespace maglev
