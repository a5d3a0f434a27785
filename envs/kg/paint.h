#pragma once
// A proof under way as text: the query, the goal that is left of it, and what may be done. Host
// only.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/printed.h"
#include "base/datalog/program.h"
#include "base/picture/canvas.h"
#include "base/picture/text.h"

namespace maglev::kg {

constexpr Rgb kPaper{20, 24, 30}, kTrue{104, 204, 116}, kFalse{228, 84, 72}, kGoal{246, 200, 84},
    kSuccessor{206, 214, 222};

/// "brother(p1,_1) mother(_1,p2)", or how the proof ended.
inline std::string goal_text(const datalog::Program& program, const datalog::Atom* goal,
                             int32_t atoms) {
  const char* const ends[] = {"proved", "no way on", "stopped"};
  std::string text;
  for (int32_t i = 0; i < atoms && goal[i].predicate > 0; ++i) {
    const int32_t end = goal[i].predicate - program.predicates.size() - 1;
    text += (i ? " " : "") + (end < 0 ? to_text(program, goal[i]) : ends[std::min(end, 2)]);
  }
  return text;
}

/// A line of the picture.
struct Line {
  std::string text;
  Rgb colour;
};

/// Rows of at most `most` characters, cut at blanks where there are some, and set in but the first.
inline std::vector<std::string> wrapped(std::string_view text, size_t most) {
  constexpr std::string_view kIn = "  ";
  most = std::max(most, kIn.size() + 1);
  std::vector<std::string> rows;
  while (!text.empty()) {
    const std::string_view in = rows.empty() ? "" : kIn;
    const size_t room = most - in.size(), blank = text.substr(0, room + 1).rfind(' ');
    const bool whole = text.size() <= room, at_blank = blank != text.npos && blank > 0;
    const size_t taken = whole ? text.size() : at_blank ? blank : room;
    rows.push_back(std::string(in) + std::string(text.substr(0, taken)));
    text.remove_prefix(taken);
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return rows;
}

/// Lines as rows of a picture, in letters of `dot` pixels a dot.
struct Page {
  int dot;
  std::vector<Line> rows;
  int step() const { return dot * (kGlyphHeight + 3); }  ///< pixels from one row to the next
};

/// In letters as large as all of it fits, and not too small to be read: rows that find no room then
/// are counted in the last one.
inline Page page_of(std::span<const Line> lines, int width, int height) {
  const int least = std::max(1, width / 600);
  Page page{.dot = std::max(least, width / 320), .rows = {}};
  for (;; --page.dot) {
    page.rows.clear();
    // two dots on either side are left free
    const int most = (width / page.dot - 4 + 1) / kGlyphStep;
    for (const Line& line : lines)
      for (std::string& row : wrapped(line.text, size_t(std::max(0, most))))
        page.rows.push_back({std::move(row), line.colour});
    // a row is left free above
    const size_t fit = size_t(std::max(1, height / page.step() - 1));
    if (page.rows.size() <= fit) return page;
    if (page.dot > least) continue;
    const size_t more = page.rows.size() - fit + 1;
    page.rows.resize(fit);
    page.rows.back() = {"and " + counted(int64_t(more), "more row"), kSuccessor};
    return page;
  }
}

inline void paint(std::span<const Line> lines, Canvas& canvas) {
  canvas.fill(kPaper);
  const Page page = page_of(lines, canvas.width(), canvas.height());
  float top = 0;
  for (const Line& row : page.rows)
    write_text(canvas, {float(2 * page.dot), top += float(page.step())}, row.text, page.dot,
               row.colour);
}

}  // namespace maglev::kg
