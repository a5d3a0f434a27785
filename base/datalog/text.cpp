#include "base/datalog/text.h"

#include <charconv>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"

namespace maglev::datalog {
namespace {

constexpr size_t kMaxTextBytes = size_t(4) << 30;
constexpr size_t kShown = 24;  // bytes of what came, in an error

bool blank(char c) { return c == ' ' || c == '\t'; }
bool ends_name(char c) {
  return blank(c) || c == '(' || c == ')' || c == ',' || c == '\'' || c == '"' || c == '%';
}

// the word at a place, for people
std::string word_at(std::string_view text, size_t place) {
  while (place < text.size() && blank(text[place])) ++place;
  if (place >= text.size()) return "the end of the line";
  size_t end = place + 1;
  if (!ends_name(text[place]))
    while (end < text.size() && !ends_name(text[end])) ++end;
  if (end - place <= kShown) return "'" + std::string(text.substr(place, end - place)) + "'";
  // no half character
  end = place + kShown;
  while (end > place + 1 && (text[end] & 0xC0) == 0x80) --end;
  return "'" + std::string(text.substr(place, end - place)) + "..'";
}

// bytes of the character at a place as UTF-8 (RFC 3629); 0: there is none
size_t character_bytes(std::string_view text, size_t place) {
  const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : 0u; };
  const unsigned first = byte(place), second = byte(place + 1);
  const auto follows = [&](size_t i) { return (byte(place + i) & 0xC0) == 0x80; };
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return follows(1) ? 2 : 0;
  // not the long way round, no surrogates, nothing beyond U+10FFFF
  if (first >= 0xE0 && first < 0xF0)
    return follows(1) && follows(2) && !(first == 0xE0 && second < 0xA0) &&
                   !(first == 0xED && second >= 0xA0)
               ? 3
               : 0;
  if (first >= 0xF0 && first < 0xF5)
    return follows(1) && follows(2) && follows(3) && !(first == 0xF0 && second < 0x90) &&
                   !(first == 0xF4 && second >= 0x90)
               ? 4
               : 0;
  return 0;
}

void expect_text(const Line& line) {
  const std::string_view bytes = line.text();
  for (size_t i = 0; i < bytes.size();) {
    const uint8_t byte = uint8_t(bytes[i]);
    if (byte < 0x20 && byte != '\t')
      line.complain(i, "expected text, got the control character " + std::to_string(int(byte)) +
                           " (is this a text file?)");
    const size_t length = character_bytes(bytes, i);
    if (!length)
      line.complain(i, "expected UTF-8, got the byte " + std::to_string(int(byte)) +
                           " (a file in another encoding: iconv -t utf-8 converts it)");
    i += length;
  }
}

}  // namespace

bool Line::done() {
  while (place_ < text_.size() && blank(text_[place_])) ++place_;
  return place_ == text_.size() || text_[place_] == '%';
}

bool Line::take(std::string_view word) {
  done();
  if (text_.substr(place_, word.size()) != word) return false;
  place_ += word.size();
  return true;
}

void Line::expect(std::string_view word, const std::string& what) {
  if (!take(word)) fail(what);
}

std::string Line::take_name(const std::string& what, bool& quoted) {
  if (done()) fail(what);
  const char quote = text_[place_];
  quoted = quote == '\'' || quote == '"';
  if (!quoted) {
    const size_t begin = place_;
    while (place_ < text_.size() && !ends_name(text_[place_])) ++place_;
    if (place_ == begin) fail(what);
    return std::string(text_.substr(begin, place_ - begin));
  }
  std::string name;
  const size_t begin = place_++;
  for (;; ++place_) {
    if (place_ >= text_.size()) complain(begin, "a quote that is never closed");
    const char c = text_[place_];
    const bool next = place_ + 1 < text_.size();
    if (c == '\\' && next) name += text_[++place_];
    else if (c == quote && next && text_[place_ + 1] == quote) name += text_[++place_];
    else if (c == quote) break;
    else name += c;
  }
  ++place_;
  if (name.empty()) complain(begin, "an empty name");
  return name;
}

TextAtom Line::take_atom() {
  TextAtom atom;
  bool quoted;
  done();
  atom.place = place_;
  atom.predicate = take_name("a predicate, as in p(a,b)", quoted);
  expect("(", "'(' behind predicate " + atom.predicate);
  int arguments = 0;
  do {
    done();
    TextTerm term{.place = place_};
    term.name = take_name("an argument of " + atom.predicate, quoted);
    const char c = term.name[0];
    term.variable = !quoted && (c == '_' || (c >= 'A' && c <= 'Z'));
    if (++arguments == 1) atom.first = std::move(term);
    else if (arguments == 2) atom.second = std::move(term);
  } while (take(","));
  expect(")", "',' or ')' in the arguments of " + atom.predicate +
                  " (a name with blanks or signs is written in quotes)");
  if (arguments != 2)
    complain(atom.place, "predicate " + atom.predicate + " with " + counted(arguments, "argument") +
                             ", where every one has 2");
  return atom;
}

double Line::take_number(const std::string& what) {
  done();
  double number = 0;
  const char* end = text_.data() + text_.size();
  const auto [behind, error] = std::from_chars(text_.data() + place_, end, number);
  if (error != std::errc() || (behind != end && !ends_name(*behind) && *behind != ':')) fail(what);
  place_ = size_t(behind - text_.data());
  return number;
}

void Line::fail(size_t place, const std::string& expected) const {
  while (place < text_.size() && blank(text_[place])) ++place;
  complain(place, "expected " + expected + ", got " + word_at(text_, place));
}

void Line::complain(size_t place, const std::string& what) const {
  throw Error("[" + std::string(file_) + ":" + std::to_string(number_) + ":" +
              std::to_string(column(place)) + "] " + what);
}

size_t Line::column(size_t place) const {
  size_t column = 1;
  for (char c : text_.substr(0, place)) column += (c & 0xC0) != 0x80;
  return column;
}

void for_each_line(const Text& text, const std::function<void(Line&)>& read) {
  std::string_view rest = text.bytes;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    std::string_view bytes = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (bytes.ends_with('\r')) bytes.remove_suffix(1);
    Line line(text.name, number, bytes);
    expect_text(line);
    read(line);
  }
}

std::vector<Column> columns_of(std::string_view line) {
  std::vector<Column> columns;
  for (size_t begin = 0;;) {
    const size_t end = line.find('\t', begin);
    columns.push_back({line.substr(begin, end - begin), begin});
    if (end == std::string_view::npos) return columns;
    begin = end + 1;
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

double number_of(const Line& line, const Column& word, const std::string& what, double low,
                 double high) {
  const std::string_view text = trimmed(word.text);
  double number = 0;
  const auto [behind, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || behind != text.data() + text.size() || !(number >= low) ||
      !(number <= high))
    line.fail(word.place, what);
  return number;
}

std::string read_text(const std::string& path) { return read_file(path, kMaxTextBytes); }

}  // namespace maglev::datalog
