#pragma once
// What the five games of MinAtar share (Young and Tian, "MinAtar: An Atari-Inspired Testbed for
// Thorough and Reproducible Reinforcement Learning Experiments", 2019): a grid of 10 x 10 cells
// shown as planes, six actions of which each game uses some, and actions that stick. Rules are
// those of version 1.0.15 of its Python package, to the step and the order of random draws; what
// differs is said where it does.

#include <array>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/env/env.h"
#include "base/picture/canvas.h"

namespace maglev::minatar {

constexpr int kSide = 10;
/// What is there in a u8 plane: networks see it as 1.
constexpr uint8_t kThere = 255;

enum Move : int32_t { kStay, kLeft, kUp, kRight, kDown, kFire };
constexpr int kMoves = 6;

/// Settings of all games.
struct Rules {
  float sticky = 0.1f;
  bool minimal_actions = false;
  int32_t max_steps = 0;

  static void describe(OptionTable& t, Rules& p) {
    t.add("sticky", p.sticky, "chance that the action before is repeated", {.min = 0, .max = 1});
    t.add("minimal_actions", p.minimal_actions,
          "offer only what the game uses, not all six: stay, left, up, right, down, fire");
    t.add("max_steps", p.max_steps, "episode limit; 0: none",
          {.min = 0, .max = 1e9, .unit = "steps"});
  }
};

/// Settings of games that grow harder.
struct RampedRules : Rules {
  bool ramp = true;

  static void describe(OptionTable& t, RampedRules& p) {
    Rules::describe(t, p);
    t.add("ramp", p.ramp, "the game grows harder as it goes on");
  }
};

/// The moves a game uses, in the order of its minimal actions.
struct Moves {
  int32_t count;
  Move move[kMoves];
};

/// What every game keeps beside its own state.
struct Player {
  int32_t last;   ///< action of the step before; the package keeps it over the end of an episode
  int32_t steps;  ///< of this episode

  bool valid() const { return last >= 0 && last < kMoves && steps >= 0; }

  MAGLEV_HD void begin() { last = 0, steps = 0; }

  /// The move that is made: the one that was chosen, or the last one again.
  MAGLEV_HD Move move(const Rules& rules, const Moves& used, const Actions& action, Rng& rng) {
    const bool sticks = rng.uniform() < rules.sticky;
    if (!sticks) last = action.discrete[0];
    ++steps;
    if (!rules.minimal_actions) return Move(last);
    return used.move[last < used.count ? last : 0];
  }

  MAGLEV_HD bool out_of_time(const Rules& rules) const {
    return rules.max_steps > 0 && steps >= rules.max_steps;
  }
};

inline EnvSpec spec(const Rules& rules, const Moves& used, int planes) {
  const std::array<const char*, kMoves> all{"stay", "left", "up", "right", "down", "fire"};
  std::vector<std::string> names(all.begin(), all.end());
  if (rules.minimal_actions) {
    names.clear();
    for (int32_t k = 0; k < used.count; ++k) names.emplace_back(all[size_t(used.move[k])]);
  }
  return {.observations = {{.name = "image", .dtype = DType::u8, .shape = {kSide, kSide, planes}}},
          .action = {.heads = {int64_t(names.size())}, .names = names},
          .max_steps = rules.max_steps};
}

/// Writes an observation, [row][column][plane].
template <int kPlanes>
class Planes {
 public:
  MAGLEV_HD explicit Planes(const ObsOut& out) : cells_(out.as<uint8_t>(0)) {
    memset(cells_, 0, size_t(kSide * kSide * kPlanes));
  }

  MAGLEV_HD void set(int row, int column, int plane) {
    cells_[(row * kSide + column) * kPlanes + plane] = kThere;
  }
  /// Where the column is within the grid: what lies behind something may not be.
  MAGLEV_HD void set_if_within(int row, int column, int plane) {
    if (column >= 0 && column < kSide) set(row, column, plane);
  }
  /// A bit a column.
  MAGLEV_HD void set_row(int row, uint32_t columns, int plane) {
    if (columns == 0) return;
    uint8_t* cell = cells_ + row * kSide * kPlanes + plane;
    for (int column = 0; column < kSide; ++column, cell += kPlanes)
      *cell = uint8_t(0u - (columns >> column & 1u));
  }

 private:
  uint8_t* cells_;
};

MAGLEV_HD int clamped(int value, int low, int high) {
  return value < low ? low : value > high ? high : value;
}
MAGLEV_HD bool within(int value, int low, int high) { return value >= low && value <= high; }

/// What people watch: of each cell its last plane, in that plane's colour.
template <class Game>
void paint(const typename Game::Params& params, const typename Game::State& state, Canvas& canvas) {
  constexpr int planes = int(Game::kColours.size());
  std::array<std::byte, size_t(kSide * kSide * planes)> cells{};
  std::byte* column = cells.data();
  const int64_t bytes = int64_t(cells.size());
  Game::observe(params, state, 0,
                {.columns = &column, .row_bytes = &bytes, .row = 0, .mask = nullptr});
  canvas.fill({14, 16, 22});
  const View view(canvas.width(), canvas.height(), 5.f, 5.f, 10.4f, 10.4f);
  canvas.rectangle(view(0.f, 10.f), view(10.f, 0.f), {26, 30, 38});
  for (int row = 0; row < kSide; ++row)
    for (int x = 0; x < kSide; ++x)
      for (int plane = 0; plane < planes; ++plane)
        if (cells[size_t((row * kSide + x) * planes + plane)] != std::byte{0})
          canvas.rectangle(view(float(x) + 0.06f, float(kSide - row) - 0.06f),
                           view(float(x) + 0.94f, float(kSide - row) - 0.94f),
                           Game::kColours[size_t(plane)]);
}

}  // namespace maglev::minatar
