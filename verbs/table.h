#pragma once
// Text tables for people: columns as wide as their widest cell, the last one wrapped where the
// terminal ends, or below its row where there is no room beside it.

#include <string>
#include <vector>

#include "base/core/terminal.h"

namespace maglev {

class Table {
 public:
  /// A heading that begins with '>' aligns its column right.
  explicit Table(std::vector<std::string> headings);
  /// As many cells as headings.
  void add(std::vector<std::string> cells);
  /// Columns are as wide as if these cells were among them: the text of the rows so far is then the
  /// beginning of what it is with the next one.
  void widen(const std::vector<std::string>& cells);
  /// Every line ends in a line end. Wraps only when the terminal is live; a file gets whole lines.
  std::string text(const Terminal& terminal) const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<int> least_;  ///< widths
  std::vector<std::vector<std::string>> rows_;
};

/// Prints to standard output.
void print(const std::string& text);

}  // namespace maglev
