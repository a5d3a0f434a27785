#pragma once
// Scripted foragers, who play from the stored window: one knows what is food and what is poison,
// the other follows what looks interesting. Host only.

#include <algorithm>
#include <cstdint>

#include "base/core/philox.h"
#include "envs/goodhart/packed_torus.h"

namespace maglev::goodhart {

/// The stored window, 2-bit cell codes in rows, of which a seeker sees the circle of radius `view`.
struct StoredWindow {
  const uint8_t* codes;
  int32_t view;

  /// The cell at (dx, dy) from the agent.
  uint32_t cell(int32_t dx, int32_t dy) const {
    const int32_t k = (dy + view) * (2 * view + 1) + dx + view;
    return (codes[k / 4] >> (2 * (k % 4))) & 3u;
  }
  /// Calls visit(dx, dy, cell) for the cells of the circle but its centre, rows first.
  template <class Visit>
  void visit_circle(Visit&& visit) const {
    for (int32_t dy = -view; dy <= view; ++dy)
      for (int32_t dx = -view; dx <= view; ++dx)
        if ((dx != 0 || dy != 0) && dx * dx + dy * dy <= view * view) visit(dx, dy, cell(dx, dy));
  }
};

/// The action that moves by (dx, dy), not both 0 and neither beyond `max_move`.
inline int32_t move_by(CellAt d, int32_t max_move) {
  const int32_t side = 2 * max_move + 1, k = (d.x + max_move) * side + d.y + max_move;
  return k - (k > side * side / 2);
}

inline int32_t sign_of(int32_t v) { return (v > 0) - (v < 0); }
inline CellAt step_towards(CellAt d) { return {sign_of(d.x), sign_of(d.y)}; }

/// One of the 8 cells around, drawn evenly from those that `may` be stepped on, or from all where
/// none may.
template <class May>
CellAt random_step(Rng& rng, May&& may) {
  CellAt open[8];
  uint32_t n = 0;
  const auto gather = [&](auto&& wanted) {
    for (int32_t dx = -1; dx <= 1; ++dx)
      for (int32_t dy = -1; dy <= 1; ++dy)
        if ((dx != 0 || dy != 0) && wanted(CellAt{dx, dy})) open[n++] = {dx, dy};
  };
  gather(may);
  if (n == 0) gather([](CellAt) { return true; });
  return open[rng.below(n)];
}

/// Towards the nearest food, the first in rows among equally near ones; beside poison that is in
/// the way, along one axis. Without food in sight, or where poison is all around: anywhere but on
/// poison.
inline CellAt omniscient_step(const StoredWindow& window, uint32_t food, uint32_t poison,
                              Rng& rng) {
  CellAt nearest{0, 0};
  int32_t least = 0;
  window.visit_circle([&](int32_t dx, int32_t dy, uint32_t cell) {
    const int32_t square = dx * dx + dy * dy;
    if (cell == food && (least == 0 || square < least)) nearest = {dx, dy}, least = square;
  });
  const auto safe = [&](CellAt d) { return window.cell(d.x, d.y) != poison; };
  if (least > 0) {
    const CellAt d = step_towards(nearest);
    const CellAt across{d.x, 0}, down{0, d.y};
    // straight ahead has no axis to spare, but one to either side
    const CellAt ways[] = {d, d.x && d.y ? across : CellAt{d.x ? d.x : 1, d.y ? d.y : 1},
                           d.x && d.y ? down : CellAt{d.x ? d.x : -1, d.y ? d.y : -1}};
    for (const CellAt way : ways)
      if (safe(way)) return way;
  }
  return random_step(rng, safe);
}

/// Towards the most interesting cell, the first in rows among equals; anywhere where nothing is
/// more interesting than an empty one. `interest` is that of each code.
inline CellAt proxy_step(const StoredWindow& window, const float (&interest)[4], Rng& rng) {
  CellAt best{0, 0};
  float most = interest[0];
  window.visit_circle([&](int32_t dx, int32_t dy, uint32_t cell) {
    if (interest[cell] > most) best = {dx, dy}, most = interest[cell];
  });
  if (best.x == 0 && best.y == 0) return random_step(rng, [](CellAt) { return true; });
  return step_towards(best);
}

}  // namespace maglev::goodhart
