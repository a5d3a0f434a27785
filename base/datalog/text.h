#pragma once
// Text of facts and rules, a line at a time: what all readers share. Every complaint says file,
// line and column, what was expected and what came.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/datalog/program.h"

namespace maglev::datalog {

/// A text and the name that errors give it. Both are the caller's.
struct Text {
  std::string_view name, bytes;
};

/// One argument of an atom as it was written.
struct TextTerm {
  std::string name;
  bool variable = false;
  size_t place = 0;  ///< in the line
};

/// predicate(first, second) as it was written.
struct TextAtom {
  std::string predicate;
  TextTerm first, second;
  size_t place = 0;
};

/// A cursor over one line. Blanks between words, and all behind a '%', do not count.
class Line {
 public:
  Line(std::string_view file, int64_t number, std::string_view text)
      : file_(file), number_(number), text_(text) {}

  int64_t number() const { return number_; }
  std::string_view text() const { return text_; }
  size_t place() const { return place_; }
  /// Of a place in the line, in characters from 1.
  size_t column(size_t place) const;
  void go_to(size_t place) { place_ = place; }

  /// Whether nothing but blanks and a comment is left.
  bool done();
  /// Passes `word` if it comes next.
  bool take(std::string_view word);
  /// Passes `word`, or complains that `what` was expected.
  void expect(std::string_view word, const std::string& what);
  /// A name: letters and signs other than blanks, brackets, commas, quotes and '%', or anything in
  /// quotes, single or double; there a quote is doubled or behind a backslash. `quoted` tells
  /// which.
  std::string take_name(const std::string& what, bool& quoted);
  /// An atom in Prolog's form. Unquoted names that begin with a capital letter or '_' are
  /// variables.
  TextAtom take_atom();
  /// A number that fills a word.
  double take_number(const std::string& what);

  /// "[file:line:column] expected .., got ..". Columns count characters from 1.
  [[noreturn]] void fail(const std::string& expected) const { fail(place_, expected); }
  [[noreturn]] void fail(size_t place, const std::string& expected) const;
  /// The same of a word that was read.
  [[noreturn]] void complain(size_t place, const std::string& what) const;

 private:
  std::string_view file_;
  int64_t number_;
  std::string_view text_;
  size_t place_ = 0;
};

/// Calls `read` with each line: ends are "\n" or "\r\n", the last one may have none, a byte order
/// mark is passed. Throws Error at a control character and at what is no UTF-8.
void for_each_line(const Text& text, const std::function<void(Line&)>& read);

/// Words of a line between tabs, as they stand, and where they begin.
struct Column {
  std::string_view text;
  size_t place = 0;
};
std::vector<Column> columns_of(std::string_view line);

std::string_view trimmed(std::string_view text);

/// The number that a whole word is, in [low, high]; complains otherwise.
double number_of(const Line& line, const Column& word, const std::string& what, double low,
                 double high);

/// A file of at most 4 GiB.
std::string read_text(const std::string& path);

}  // namespace maglev::datalog
