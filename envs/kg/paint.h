#pragma once
// A proof under way as text: the query, the goal that is left of it, and what may be done. Host
// only.

#include <algorithm>
#include <span>
#include <string>

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

inline void paint(std::span<const Line> lines, Canvas& canvas) {
  canvas.fill(kPaper);
  const int dot = std::max(1, canvas.width() / 320), step = dot * (kGlyphHeight + 3);
  float top = float(step);
  for (const Line& line : lines) {
    if (top + float(step) > float(canvas.height())) return;
    write_text(canvas, {float(2 * dot), top}, line.text, dot, line.colour);
    top += float(step);
  }
}

}  // namespace maglev::kg
