#include "verbs/table.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/core/error.h"

namespace maglev {
namespace {

constexpr int kGap = 2;
constexpr int kLeastLast = 24;  // a last column that is cut to less than this goes below its row
constexpr int kIndent = 4;

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
    least_.push_back(display_width(heading));
  }
}

void Table::add(std::vector<std::string> cells) {
  MAGLEV_ASSERT(cells.size() == headings_.size(), "a row has a cell for each heading");
  rows_.push_back(std::move(cells));
}

void Table::widen(const std::vector<std::string>& cells) {
  MAGLEV_ASSERT(cells.size() == headings_.size(), "a row has a cell for each heading");
  for (size_t c = 0; c < cells.size(); ++c)
    least_[c] = std::max(least_[c], display_width(cells[c]));
}

std::string Table::text(const Terminal& terminal) const {
  const size_t last = headings_.size() - 1;
  std::vector<int> widths = least_;
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  int before_last = 0;
  for (size_t c = 0; c < last; ++c) before_last += widths[c] + kGap;
  const int room = terminal.columns - before_last;
  const bool below = terminal.live && last > 0 && room < std::min(kLeastLast, widths[last]);
  const int indent = below ? kIndent : before_last;
  const int last_width = terminal.live ? std::max(kLeastLast, terminal.columns - indent)
                                       : std::numeric_limits<int>::max();

  std::string text;
  const auto add_row = [&](const std::vector<std::string>& cells, Ink ink) {
    Line line;
    for (size_t c = 0; c < last; ++c) {
      const int spare = widths[c] - display_width(cells[c]);
      const int end = line.width() + widths[c] + kGap;
      if (right_[c]) line.pad_to(line.width() + spare);
      line.add(cells[c], c == 0 && ink == Ink::plain ? Ink::bold : ink).pad_to(end);
    }
    const auto parts = wrapped(cells[last], last_width);
    if (!below && right_[last]) line.pad_to(line.width() + widths[last] - display_width(parts[0]));
    if (!below) line.add(parts[0], ink);
    text += line.text(terminal.colour) + "\n";
    for (size_t i = below ? 0 : 1; i < parts.size(); ++i)
      text += Line().pad_to(indent).add(parts[i], ink).text(terminal.colour) + "\n";
  };
  add_row(headings_, Ink::dim);
  for (const auto& row : rows_) add_row(row, Ink::plain);
  return text;
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

}  // namespace maglev
