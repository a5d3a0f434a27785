#pragma once
// A cannon against waves of aliens. Planes: cannon, alien, alien that moves left, alien that moves
// right, the cannon's bullets, theirs.

#include "envs/minatar.h"

namespace maglev {

struct MinatarSpaceInvaders {
  static constexpr const char* kSummary = "MinAtar: shoot waves of aliens, 10 x 10 cells";
  MAGLEV_HD static minatar::Moves used() {
    return {4, {minatar::kStay, minatar::kLeft, minatar::kRight, minatar::kFire}};
  }
  static constexpr std::array<Rgb, 6> kColours = {{{92, 196, 232},
                                                   {126, 200, 110},
                                                   {104, 184, 96},
                                                   {150, 206, 104},
                                                   {240, 236, 220},
                                                   {232, 92, 78}}};
  static constexpr int kCooling = 5, kPace = 12, kFastest = 6, kShots = 10;
  static constexpr uint32_t kRow = (1u << minatar::kSide) - 1;
  static constexpr uint32_t kLeftEdge = 1, kRightEdge = 1u << 9;

  using Params = minatar::RampedRules;

  /// A row a word, a column a bit.
  struct Cells {
    uint32_t row[minatar::kSide];

    bool valid() const {
      for (uint32_t bits : row)
        if (bits > kRow) return false;
      return true;
    }
    MAGLEV_HD bool at(int y, int x) const { return row[y] >> x & 1; }
    MAGLEV_HD uint32_t columns() const {
      uint32_t any = 0;
      for (uint32_t bits : row) any |= bits;
      return any;
    }
    MAGLEV_HD int count() const {
      int sum = 0;
      for (uint32_t bits : row)
        for (; bits; bits &= bits - 1) ++sum;
      return sum;
    }
    /// One row up; the last becomes empty.
    MAGLEV_HD void rise() {
      for (int y = 0; y < minatar::kSide - 1; ++y) row[y] = row[y + 1];
      row[minatar::kSide - 1] = 0;
    }
    /// One row down; what leaves the grid comes in at the top where it `wraps`.
    MAGLEV_HD void sink(bool wraps) {
      const uint32_t last = row[minatar::kSide - 1];
      for (int y = minatar::kSide - 1; y > 0; --y) row[y] = row[y - 1];
      row[0] = wraps ? last : 0;
    }
    /// One column; nothing is at the edge it moves to.
    MAGLEV_HD void slide(int direction) {
      for (uint32_t& bits : row) bits = (direction > 0 ? bits << 1 : bits >> 1) & kRow;
    }
  };

  struct State {
    minatar::Player player;
    int32_t x, cooling;
    int32_t direction;  ///< of the aliens
    int32_t pace, move_timer, shot_timer, ramp_index;
    Cells bullets, shots, aliens;
  };

  static bool valid(const Params&, const State& s) {
    using minatar::within;
    return s.player.valid() && within(s.x, 0, 9) && within(s.cooling, 0, kCooling) &&
           within(s.direction, -1, 1) && within(s.pace, 0, kPace) &&
           within(s.move_timer, 0, kPace) && within(s.shot_timer, 0, kShots) &&
           within(s.ramp_index, 0, kPace) && s.bullets.valid() && s.shots.valid() &&
           s.aliens.valid();
  }

  static EnvSpec spec(const Params& p) { return minatar::spec(p, used(), 6); }

  MAGLEV_HD static void new_wave(State& s) {
    for (int y = 0; y < 4; ++y) s.aliens.row[y] |= 0xFCu;  // columns 2 to 7
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng&) {
    s = {.player = {},
         .x = 5,
         .cooling = 0,
         .direction = -1,
         .pace = kPace,
         .move_timer = kPace,
         .shot_timer = kShots,
         .ramp_index = 0,
         .bullets = {},
         .shots = {},
         .aliens = {}};
    new_wave(s);
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    const minatar::Move move = s.player.move(p, used(), action, rng);
    if (move == minatar::kFire && s.cooling == 0) {
      s.bullets.row[9] |= 1u << s.x;
      s.cooling = kCooling;
    }
    if (move == minatar::kLeft) s.x = minatar::clamped(s.x - 1, 0, 9);
    if (move == minatar::kRight) s.x = minatar::clamped(s.x + 1, 0, 9);

    s.bullets.rise();
    s.shots.sink(/*wraps=*/false);
    if (s.shots.at(9, s.x) || s.aliens.at(9, s.x)) out.terminated = true;
    if (s.move_timer == 0) move_aliens(s, out);
    if (s.shot_timer == 0) {
      s.shot_timer = kShots;
      shoot(s);
    }
    for (int y = 0; y < minatar::kSide; ++y) {
      uint32_t killed = s.aliens.row[y] & s.bullets.row[y];
      s.aliens.row[y] &= ~killed, s.bullets.row[y] &= ~killed;
      for (; killed; killed &= killed - 1) out.reward[0] += 1;
    }
    if (s.cooling > 0) --s.cooling;
    s.move_timer = minatar::clamped(s.move_timer - 1, 0, kPace);
    s.shot_timer = minatar::clamped(s.shot_timer - 1, 0, kShots);
    if (s.aliens.columns() == 0) {
      if (p.ramp && s.pace > kFastest) --s.pace, ++s.ramp_index;
      new_wave(s);
    }
    out.truncated = s.player.out_of_time(p);
  }

  /// Sideways, or down and back where one is at the edge; the fewer there are, the faster.
  MAGLEV_HD static void move_aliens(State& s, StepOut& out) {
    const int left = s.aliens.count();
    s.move_timer = left < s.pace ? left : s.pace;
    const uint32_t columns = s.aliens.columns();
    if ((columns & kLeftEdge && s.direction < 0) || (columns & kRightEdge && s.direction > 0)) {
      s.direction = -s.direction;
      if (s.aliens.row[9] != 0) out.terminated = true;
      s.aliens.sink(/*wraps=*/true);
    } else {
      s.aliens.slide(s.direction);
    }
    if (s.aliens.at(9, s.x)) out.terminated = true;
  }

  /// The lowest alien of the column nearest to the cannon shoots; of two as near, the left one.
  MAGLEV_HD static void shoot(State& s) {
    const uint32_t columns = s.aliens.columns();
    for (int distance = 0; distance < minatar::kSide; ++distance)
      for (int side = -1; side <= 1; side += 2) {
        const int x = s.x + side * distance;
        if (!minatar::within(x, 0, 9) || !(columns >> x & 1)) continue;
        int y = 9;
        while (!s.aliens.at(y, x)) --y;
        s.shots.row[y] |= 1u << x;
        return;
      }
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    minatar::Planes<6> planes(out);
    planes.set(9, s.x, 0);
    for (int y = 0; y < minatar::kSide; ++y) {
      planes.set_row(y, s.aliens.row[y], 1);
      planes.set_row(y, s.aliens.row[y], s.direction < 0 ? 2 : 3);
      planes.set_row(y, s.bullets.row[y], 4);
      planes.set_row(y, s.shots.row[y], 5);
    }
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    minatar::paint<MinatarSpaceInvaders>(p, s, canvas);
  }
};

}  // namespace maglev
