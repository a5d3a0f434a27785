#include "base/core/terminal.h"

#include <map>

#include <gtest/gtest.h>

namespace maglev {
namespace {

Terminal terminal_with(bool is_tty, const std::map<std::string, std::string>& variables,
                       int columns = 0, int rows = 0) {
  return terminal_from(
      {.is_tty = is_tty, .columns = columns, .rows = rows, .variable = [&](const char* name) {
         auto found = variables.find(name);
         return found == variables.end() ? nullptr : found->second.c_str();
       }});
}

TEST(Terminal, redraws_only_on_a_terminal_that_can) {
  EXPECT_TRUE(terminal_with(true, {{"TERM", "xterm"}}).live);
  EXPECT_FALSE(terminal_with(false, {{"TERM", "xterm"}}).live);
  EXPECT_FALSE(terminal_with(true, {{"TERM", "dumb"}}).live);
  EXPECT_FALSE(terminal_with(true, {}).live);
}

TEST(Terminal, colours_follow_no_color_and_clicolor_force) {
  EXPECT_TRUE(terminal_with(true, {{"TERM", "xterm"}}).colour);
  EXPECT_TRUE(terminal_with(true, {{"TERM", "xterm"}, {"NO_COLOR", ""}}).colour);
  EXPECT_FALSE(terminal_with(true, {{"TERM", "xterm"}, {"NO_COLOR", "1"}}).colour);
  EXPECT_FALSE(terminal_with(false, {{"TERM", "xterm"}}).colour);
  EXPECT_TRUE(terminal_with(false, {{"CLICOLOR_FORCE", "1"}}).colour);
  EXPECT_FALSE(terminal_with(false, {{"CLICOLOR_FORCE", "0"}}).colour);
  EXPECT_FALSE(terminal_with(false, {{"CLICOLOR_FORCE", "1"}, {"NO_COLOR", "1"}}).colour);
}

TEST(Terminal, the_first_locale_variable_that_is_set_decides_on_unicode) {
  EXPECT_TRUE(terminal_with(true, {{"LANG", "en_GB.UTF-8"}}).unicode);
  EXPECT_TRUE(terminal_with(true, {{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}).unicode);
  EXPECT_FALSE(terminal_with(true, {{"LC_ALL", "C"}, {"LANG", "en_GB.UTF-8"}}).unicode);
  EXPECT_TRUE(terminal_with(true, {{"LC_ALL", ""}, {"LANG", "en_GB.UTF-8"}}).unicode);
  EXPECT_FALSE(terminal_with(true, {}).unicode);
}

TEST(Terminal, size_comes_from_the_window_then_the_variables_then_80_by_24) {
  const std::map<std::string, std::string> variables{{"COLUMNS", "132"}, {"LINES", "50"}};
  EXPECT_EQ(terminal_with(true, variables, 61, 17).columns, 61);
  EXPECT_EQ(terminal_with(true, variables).columns, 132);
  EXPECT_EQ(terminal_with(true, variables).rows, 50);
  EXPECT_EQ(terminal_with(true, {{"COLUMNS", "wide"}}).columns, 80);
  EXPECT_EQ(terminal_with(true, {}).rows, 24);
}

TEST(DisplayWidth, counts_columns_and_not_bytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("━█…·"), 4);
  EXPECT_EQ(display_width("e\xCC\x81"), 1);
  EXPECT_EQ(display_width("東京"), 4);
  EXPECT_EQ(display_width("\xFF\xFE"), 2);
  EXPECT_EQ(display_width("\xE2\x96"), 2);
}

TEST(Fit, cuts_with_an_ellipsis_and_never_exceeds_the_width) {
  EXPECT_EQ(fit("abcdef", 6, true), "abcdef");
  EXPECT_EQ(fit("abcdef", 5, true), "abcd…");
  EXPECT_EQ(fit("abcdef", 5, false), "ab...");
  EXPECT_EQ(fit("東京都", 4, true), "東…");
  EXPECT_EQ(fit("a\tb\x1b[2J", 20, true), "a b [2J");
  for (int columns = 0; columns < 8; ++columns)
    for (bool unicode : {true, false})
      EXPECT_LE(display_width(fit("a東b京cd", columns, unicode)), columns);
}

TEST(Line, colours_cost_no_width) {
  Line line;
  line.add("ab", Ink::green).add("cd").pad_to(6);
  EXPECT_EQ(line.width(), 6);
  EXPECT_EQ(line.text(false), "abcd  ");
  EXPECT_EQ(line.text(true), "\x1b[32mab\x1b[0mcd  ");
}

TEST(Line, is_fitted_across_spans) {
  Line line;
  line.add("abc", Ink::green).add("def", Ink::red).add("ghi");
  EXPECT_EQ(line.fitted(9, true).text(false), "abcdefghi");
  EXPECT_EQ(line.fitted(5, true).text(false), "abcd…");
  EXPECT_EQ(line.fitted(4, true).text(false), "abc…");
  EXPECT_EQ(line.fitted(5, false).text(false), "ab...");
  // a character of two columns that does not fit is the end of what is shown
  EXPECT_EQ(Line().add("ab\xE5\xAE\xBD").add("c").add("dddd").fitted(4, true).text(false), "ab…");
  for (int columns = 0; columns < 12; ++columns)
    EXPECT_LE(line.fitted(columns, false).width(), columns);
}

}  // namespace
}  // namespace maglev
