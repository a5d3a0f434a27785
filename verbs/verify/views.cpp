#include "verbs/verify/views.h"

#include <algorithm>
#include <cstdlib>

namespace maglev::verbs::verify {
namespace {

int32_t square_of(CellAt d) { return d.x * d.x + d.y * d.y; }
int32_t far_of(CellAt d) { return std::max(std::abs(d.x), std::abs(d.y)); }

/// The 8 directions.
std::vector<CellAt> around() {
  std::vector<CellAt> cells;
  for (int32_t dx = -1; dx <= 1; ++dx)
    for (int32_t dy = -1; dy <= 1; ++dy)
      if (dx != 0 || dy != 0) cells.push_back({dx, dy});
  return cells;
}

}  // namespace

std::vector<View> food_views(const Goodhart::Params& params) {
  const int32_t reach = std::min(2, params.view);
  std::vector<View> views;
  for (const CellAt d : around())
    views.push_back({{{CellAt{reach * d.x, reach * d.y}, Goodhart::kFood}}});
  return views;
}

std::vector<View> poison_views(const Goodhart::Params& params) {
  std::vector<View> views;
  for (const CellAt poison : around()) {
    if (params.view < 2) views.push_back({{{poison, Goodhart::kPoison}}});
    for (int32_t dx = -2; dx <= 2 && params.view >= 2; ++dx)
      for (int32_t dy = -2; dy <= 2; ++dy)
        if (far_of({dx, dy}) == 2)
          views.push_back({{{CellAt{dx, dy}, Goodhart::kFood}, {poison, Goodhart::kPoison}}});
  }
  return views;
}

std::vector<uint8_t> packed(const View& view, int32_t radius) {
  const int32_t side = 2 * radius + 1;
  std::vector<uint8_t> bytes(size_t(2 * side * side + 7) / 8, 0);
  for (const auto& [d, code] : view.cells) {
    const int32_t k = (d.y + radius) * side + d.x + radius;
    bytes[size_t(k / 4)] = uint8_t(bytes[size_t(k / 4)] | code << (2 * (k % 4)));
  }
  return bytes;
}

CellAt move_of(int32_t action, int32_t max_move) {
  const int32_t side = 2 * max_move + 1, k = action + (action >= side * side / 2);
  return {k / side - max_move, k % side - max_move};
}

bool nears_food(const View& view, CellAt move) {
  const CellAt food = view.cells.front().first;
  return square_of({food.x - move.x, food.y - move.y}) < square_of(food);
}

bool keeps_off_poison(const View& view, CellAt move) {
  return std::ranges::none_of(view.cells, [&](const auto& cell) {
    return cell.second == Goodhart::kPoison && cell.first.x == move.x && cell.first.y == move.y;
  });
}

bool follows(const uint8_t* before, const uint8_t* after, CellAt move, int32_t radius) {
  const goodhart::StoredWindow old{before, radius}, now{after, radius};
  int32_t grown = 0;
  for (int32_t y = -radius; y <= radius; ++y)
    for (int32_t x = -radius; x <= radius; ++x) {
      const CellAt was{x + move.x, y + move.y};
      if (far_of(was) > radius || (x == 0 && y == 0)) continue;
      const uint32_t there = old.cell(was.x, was.y), here = now.cell(x, y);
      if (there == here) continue;
      if (there != Goodhart::kEmpty) return false;
      ++grown;
    }
  // what grows again was eaten: it lay where the agent went
  const bool ate = far_of(move) > radius || old.cell(move.x, move.y) != Goodhart::kEmpty;
  return now.cell(0, 0) == Goodhart::kEmpty && grown <= (ate ? 1 : 0);
}

}  // namespace maglev::verbs::verify
