#include "base/core/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <unistd.h>

#include <sys/ioctl.h>

#include "base/core/words.h"

namespace maglev {
namespace {

struct Character {
  char32_t code;
  size_t bytes;
};

// the character at the front; a byte that is no UTF-8 stands for itself
Character front(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  // the first byte's leading ones say how many bytes there are
  const size_t bytes = lead < 0x80         ? 1
                       : (lead >> 5) == 6  ? 2
                       : (lead >> 4) == 14 ? 3
                       : (lead >> 3) == 30 ? 4
                                           : 0;
  if (bytes == 1) return {lead, 1};
  if (bytes == 0 || bytes > text.size()) return {0xFFFD, 1};
  // six bits of the code in every byte that follows
  char32_t code = lead & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0xFFFD, 1};
    code = (code << 6) | (byte(i) & 0x3F);
  }
  return {code, bytes};
}

int width_of(char32_t c) {
  const auto in = [c](char32_t low, char32_t high) { return c >= low && c <= high; };
  // controls, and marks that join the character before them
  if (c < 0x20 || in(0x7F, 0x9F)) return 0;
  if (in(0x300, 0x36F) || in(0x200B, 0x200F) || in(0x20D0, 0x20FF) || in(0xFE00, 0xFE0F) ||
      in(0xFE20, 0xFE2F))
    return 0;
  // wide East Asian characters and emoji
  if (in(0x1100, 0x115F) || in(0x2E80, 0xA4CF) || in(0xAC00, 0xD7A3) || in(0xF900, 0xFAFF) ||
      in(0xFE30, 0xFE6F) || in(0xFF00, 0xFF60) || in(0xFFE0, 0xFFE6) || in(0x1F300, 0x1FAFF) ||
      in(0x20000, 0x3FFFD))
    return 2;
  return 1;
}

bool control(char32_t c) { return c < 0x20 || (c >= 0x7F && c <= 0x9F); }

std::string without_controls(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const Character c = front(text);
    if (control(c.code)) clean += ' ';
    else clean += text.substr(0, c.bytes);
    text.remove_prefix(c.bytes);
  }
  return clean;
}

// as much of the text as fits in `columns`
std::string_view prefix(std::string_view text, int columns) {
  size_t end = 0;
  while (end < text.size()) {
    const Character c = front(text.substr(end));
    columns -= width_of(c.code);
    if (columns < 0) break;
    end += c.bytes;
  }
  return text.substr(0, end);
}

std::string_view ellipsis(int columns, bool unicode) {
  if (unicode) return "…";
  return std::string_view("...").substr(0, size_t(std::min(3, columns)));
}

const char* code_of(Ink ink) {
  switch (ink) {
    case Ink::plain:
      return "";
    case Ink::bold:
      return "\x1b[1m";
    case Ink::dim:
      return "\x1b[2m";
    case Ink::red:
      return "\x1b[31m";
    case Ink::green:
      return "\x1b[32m";
    case Ink::yellow:
      return "\x1b[33m";
    case Ink::blue:
      return "\x1b[34m";
    case Ink::magenta:
      return "\x1b[35m";
    case Ink::cyan:
      return "\x1b[36m";
  }
  return "";
}

int number(const char* text) { return text ? std::atoi(text) : 0; }

}  // namespace

Terminal terminal_from(const TerminalFacts& facts) {
  const auto variable = [&](const char* name) {
    const char* value = facts.variable ? facts.variable(name) : nullptr;
    return std::string(value ? value : "");
  };
  Terminal terminal;
  const std::string term = variable("TERM");
  terminal.live = facts.is_tty && !term.empty() && term != "dumb";
  // colours where they show or are forced, unless they are forbidden
  const std::string force = variable("CLICOLOR_FORCE");
  terminal.colour =
      (terminal.live || (!force.empty() && force != "0")) && variable("NO_COLOR").empty();
  // the first of the three that is set decides, as in setlocale
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = variable(name);
  locale = lower_case(locale);
  terminal.unicode =
      locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  // what the terminal itself says goes before the variables
  const int columns = facts.columns > 0 ? facts.columns : number(variable("COLUMNS").c_str());
  const int rows = facts.rows > 0 ? facts.rows : number(variable("LINES").c_str());
  if (columns > 0) terminal.columns = columns;
  if (rows > 0) terminal.rows = rows;
  return terminal;
}

Terminal probe_terminal(int fd) {
  TerminalFacts facts{.is_tty = isatty(fd) == 1,
                      .variable = [](const char* name) { return std::getenv(name); }};
  winsize size{};
  if (facts.is_tty && ioctl(fd, TIOCGWINSZ, &size) == 0) {
    facts.columns = size.ws_col;
    facts.rows = size.ws_row;
  }
  return terminal_from(facts);
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character c = front(text);
    width += width_of(c.code);
    text.remove_prefix(c.bytes);
  }
  return width;
}

std::string fit(std::string_view text, int columns, bool unicode) {
  const std::string clean = without_controls(text);
  if (display_width(clean) <= columns) return clean;
  if (columns <= 0) return "";
  // the ellipsis takes its columns from the text
  const std::string_view end = ellipsis(columns, unicode);
  return std::string(prefix(clean, columns - display_width(end))) + std::string(end);
}

std::vector<std::string> wrapped(const std::string& text, int columns) {
  std::vector<std::string> lines{""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    // a word joins the line where it fits, else it begins the next
    if (line.empty()) line = word;
    else if (display_width(line) + 1 + display_width(word) <= columns) line += " " + word;
    else lines.push_back(word);
  }
  return lines;
}

Line& Line::add(std::string_view text, Ink ink) {
  if (text.empty()) return *this;
  spans_.push_back({without_controls(text), ink});
  width_ += display_width(spans_.back().text);
  return *this;
}

Line& Line::pad_to(int columns) {
  if (columns > width_) add(std::string(size_t(columns - width_), ' '));
  return *this;
}

Line& Line::add(const Line& other) {
  for (const Span& span : other.spans_) add(span.text, span.ink);
  return *this;
}

Line Line::fitted(int columns, bool unicode) const {
  if (width_ <= columns) return *this;
  Line line;
  if (columns <= 0) return line;
  const std::string_view end = ellipsis(columns, unicode);
  const int room = columns - display_width(end);
  // as much of the spans as leaves room for the ellipsis
  for (const Span& span : spans_) {
    const std::string_view fits = prefix(span.text, room - line.width());
    line.add(fits, span.ink);
    if (fits.size() < span.text.size() || line.width() == room) break;
  }
  return line.add(end, Ink::dim);
}

std::string Line::text(bool colour) const {
  std::string text;
  for (const Span& span : spans_) {
    if (colour && span.ink != Ink::plain) text += code_of(span.ink) + span.text + "\x1b[0m";
    else text += span.text;
  }
  return text;
}

}  // namespace maglev
