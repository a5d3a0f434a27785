#pragma once
// An environment with assets, to learn from and to copy: an agent looks for the exit of a maze, and
// all environments walk the same map. The map is made once, lies once in each device's memory, and
// is not in checkpoints: a run that is resumed makes it anew and checks that it is the same.

#include <vector>

#include "base/env/env.h"
#include "base/picture/canvas.h"

namespace maglev {

struct Maze {
  static constexpr const char* kSummary = "find the exit of a maze, one map for all (an example)";

  struct Params {
    int32_t side = 9;
    int32_t map = 1;
    int32_t max_steps = 256;

    static void describe(OptionTable& t, Params& p) {
      t.add("side", p.side, "cells from wall to wall", {.min = 2, .max = 4096, .unit = "cells"});
      t.add("map", p.map, "which maze: the seed it is dug from", {.min = 0, .max = 1e9});
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
    }
  };

  enum Direction : int32_t { kWest, kEast, kNorth, kSouth };

  // What all environments read and none writes: a struct, and behind it as many bytes as the
  // settings ask for. No pointers: it is copied to a device as it is.
  struct Assets {
    int32_t exit;  ///< cell

    /// [side * side], bit d: the way in direction d is open.
    MAGLEV_HD const uint8_t* open() const { return reinterpret_cast<const uint8_t*>(this + 1); }
    uint8_t* open() { return reinterpret_cast<uint8_t*>(this + 1); }
  };
  static size_t asset_bytes(const Params& p) {
    return sizeof(Assets) + size_t(p.side) * size_t(p.side);
  }

  // Host code, called once, into zeroed memory: it may read files, and throws Error when it cannot.
  // Here a maze without rings is dug, from a cell to any neighbour that is still closed, and back.
  static void make_assets(const Params& p, Assets& map) {
    Rng rng(uint64_t(p.map), stream_id(Purpose::env, 0), 0);
    uint8_t* open = map.open();
    std::vector<int32_t> path{0};
    size_t longest = 0;
    while (!path.empty()) {
      const int32_t from = path.back();
      // the exit is the cell farthest from the first
      if (path.size() > longest) longest = path.size(), map.exit = from;
      int32_t ways[4], count = 0;
      for (int32_t d = kWest; d <= kSouth; ++d)
        if (inside(p, from, d) && !open[beside(p, from, d)]) ways[count++] = d;
      if (count == 0) {
        path.pop_back();
        continue;
      }
      const int32_t d = ways[rng.below(uint32_t(count))], to = beside(p, from, d);
      open[from] = uint8_t(open[from] | 1 << d);
      open[to] = uint8_t(open[to] | 1 << (d ^ 1));
      path.push_back(to);
    }
  }

  struct State {
    int32_t cell;
    int32_t steps;
  };

  // Asked of a state that was read from a file: step indexes the map with it.
  static bool valid(const Params& p, const Assets&, const State& s) {
    return s.cell >= 0 && s.cell < p.side * p.side;
  }

  static EnvSpec spec(const Params& p) {
    return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {6}}},
            .action = {.heads = {4}, .names = {"west", "east", "north", "south"}},
            .max_steps = p.max_steps,
            .events = {"bumps"}};
  }

  // The functions of an environment with assets take them behind the settings.
  MAGLEV_HD static void reset(const Params& p, const Assets& map, State& s, Rng& rng) {
    // anywhere but at the exit
    s.cell = int32_t(rng.below(uint32_t(p.side * p.side - 1)));
    s.cell += s.cell >= map.exit;
    s.steps = 0;
  }

  MAGLEV_HD static void step(const Params& p, const Assets& map, State& s, const Actions& action,
                             Rng&, StepOut& out) {
    // an index out of range takes the nearest
    const int32_t given = action.discrete[0], d = given < 0 ? 0 : given > 3 ? 3 : given;
    if (map.open()[s.cell] >> d & 1) s.cell = beside(p, s.cell, d);
    else out.count(0, 1.f);
    s.steps += 1;
    out.terminated = s.cell == map.exit;
    out.truncated = s.steps >= p.max_steps;
    out.reward[0] = out.terminated ? 1.f : -0.01f;
  }

  // which ways are open, and where it is
  MAGLEV_HD static void observe(const Params& p, const Assets& map, const State& s, int,
                                const ObsOut& out) {
    float* o = out.as<float>(0);
    for (int d = 0; d < 4; ++d) o[d] = float(map.open()[s.cell] >> d & 1);
    o[4] = float(s.cell % p.side) / float(p.side - 1);
    o[5] = float(s.cell / p.side) / float(p.side - 1);
  }

  // Ways as light lines, the exit green.
  static void paint(const Params& p, const Assets& map, const State& s, Canvas& canvas) {
    const float middle = 0.5f * float(p.side - 1), side = float(p.side);
    const View view(canvas.width(), canvas.height(), middle, middle, side, side);
    const auto place = [&](int32_t cell) {
      return view(float(cell % p.side), float(p.side - 1 - cell / p.side));
    };
    canvas.fill({60, 70, 82});
    for (int32_t cell = 0; cell < p.side * p.side; ++cell)
      for (int32_t d : {kEast, kSouth})
        if (map.open()[cell] >> d & 1)
          canvas.line(place(cell), place(beside(p, cell, d)), 0.6f * view.scale, {247, 249, 251});
    canvas.disc(place(map.exit), 0.28f * view.scale, {120, 180, 110});
    canvas.disc(place(s.cell), 0.25f * view.scale, {192, 72, 64});
  }

 private:
  MAGLEV_HD static int32_t beside(const Params& p, int32_t cell, int32_t d) {
    return cell + (d == kWest ? -1 : d == kEast ? 1 : d == kNorth ? -p.side : p.side);
  }
  static bool inside(const Params& p, int32_t cell, int32_t d) {
    const int32_t x = cell % p.side, y = cell / p.side;
    return d == kWest ? x > 0 : d == kEast ? x + 1 < p.side : d == kNorth ? y > 0 : y + 1 < p.side;
  }
};

}  // namespace maglev
