#pragma once
// A paddle returns a ball that breaks bricks; the game ends when it falls. Planes: paddle, ball,
// where the ball was, bricks.

#include "envs/minatar.h"

namespace maglev {

struct MinatarBreakout {
  static constexpr const char* kSummary = "MinAtar: break bricks with a ball, 10 x 10 cells";
  MAGLEV_HD static minatar::Moves used() {
    return {3, {minatar::kStay, minatar::kLeft, minatar::kRight}};
  }
  static constexpr std::array<Rgb, 4> kColours = {
      {{92, 196, 232}, {246, 214, 92}, {120, 106, 60}, {214, 92, 78}}};
  static constexpr int kTop = 1, kRows = 3;  ///< where bricks are
  static constexpr uint32_t kFull = (1u << minatar::kSide) - 1;

  using Params = minatar::Rules;

  struct State {
    minatar::Player player;
    int32_t x, y, dx, dy;  ///< of the ball; it moves along diagonals
    int32_t last_x, last_y;
    int32_t paddle;
    int32_t inside;          ///< 1: the ball has broken a brick and not left the wall since
    uint32_t bricks[kRows];  ///< a bit a column
  };

  static bool valid(const Params&, const State& s) {
    using minatar::within;
    bool good = s.player.valid() && within(s.x, 0, 9) && within(s.y, 0, 9) && within(s.dx, -1, 1) &&
                within(s.dy, -1, 1) && within(s.last_x, 0, 9) && within(s.last_y, 0, 9) &&
                within(s.paddle, 0, 9);
    for (uint32_t row : s.bricks) good = good && row <= kFull;
    return good;
  }

  static EnvSpec spec(const Params& p) { return minatar::spec(p, used(), 4); }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    const bool from_right = rng.below(2) == 1;
    s = {.player = {},
         .x = from_right ? 9 : 0,
         .y = 3,
         .dx = from_right ? -1 : 1,
         .dy = 1,
         .last_x = from_right ? 9 : 0,
         .last_y = 3,
         .paddle = 4,
         .inside = 0,
         .bricks = {kFull, kFull, kFull}};
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    const minatar::Move move = s.player.move(p, used(), action, rng);
    if (move == minatar::kLeft) s.paddle = minatar::clamped(s.paddle - 1, 0, 9);
    if (move == minatar::kRight) s.paddle = minatar::clamped(s.paddle + 1, 0, 9);

    s.last_x = s.x, s.last_y = s.y;
    int x = s.x + s.dx, y = s.y + s.dy;
    if (x < 0 || x > 9) {
      x = minatar::clamped(x, 0, 9);
      s.dx = -s.dx;
    }
    const int row = y - kTop;
    bool in_wall = false;
    if (y < 0) {
      y = 0;
      s.dy = -s.dy;
    } else if (row >= 0 && row < kRows && s.bricks[row] >> x & 1) {
      in_wall = true;
      if (!s.inside) {
        out.reward[0] = 1;
        s.inside = 1;
        s.bricks[row] &= ~(1u << x);
        y = s.last_y;
        s.dy = -s.dy;
      }
    } else if (y >= 9) {
      // a cleared wall is built again when the ball comes down
      if ((s.bricks[0] | s.bricks[1] | s.bricks[2]) == 0)
        for (uint32_t& bricks : s.bricks) bricks = kFull;
      y = 9;
      if (s.x == s.paddle) {
        s.dy = -s.dy;
        y = s.last_y;
      } else if (x == s.paddle) {
        // hit at its side
        s.dx = -s.dx, s.dy = -s.dy;
        y = s.last_y;
      } else {
        out.terminated = true;
      }
    }
    if (!in_wall) s.inside = 0;
    s.x = x, s.y = y;
    out.truncated = s.player.out_of_time(p);
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    minatar::Planes<4> planes(out);
    planes.set(9, s.paddle, 0);
    planes.set(s.y, s.x, 1);
    planes.set(s.last_y, s.last_x, 2);
    for (int row = 0; row < kRows; ++row) planes.set_row(kTop + row, s.bricks[row], 3);
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    minatar::paint<MinatarBreakout>(p, s, canvas);
  }
};

}  // namespace maglev
