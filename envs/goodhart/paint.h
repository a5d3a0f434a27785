#pragma once
// The torus as a picture: the agent's neighbourhood as it is, the whole world, what the agent sees
// of it, and its energy: what people watch. Host only.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/picture/canvas.h"
#include "base/picture/text.h"
#include "envs/goodhart/packed_torus.h"

namespace maglev::goodhart {

struct Scene {
  PackedTorus world;
  CellAt agent;
  int32_t view;                  ///< radius of what it sees
  std::span<const float> sight;  ///< [codes, 2], what it sees of a cell
  float energy, energy_start;
  uint32_t food, poison;  ///< their codes
};

constexpr Rgb kBack{20, 24, 30}, kGround{32, 38, 46}, kSeen{48, 56, 66};
constexpr Rgb kFood{104, 204, 116}, kPoison{192, 92, 214}, kAgent{246, 200, 84};
constexpr Rgb kText{206, 214, 222}, kDanger{228, 84, 72};

struct Box {
  float left, top, width, height;
};

inline CellAt around(const Scene& s, int32_t dx, int32_t dy) {
  // further away than the world is wide, a torus repeats itself
  const auto wrapped = [](int32_t v, int32_t n) { return ((v % n) + n) % n; };
  return {wrapped(s.agent.x + dx, s.world.width), wrapped(s.agent.y + dy, s.world.height)};
}

/// Cells around the agent, `side` pixels each, as they are; those it sees are lighter.
inline void paint_neighbourhood(const Scene& s, const Box& b, float side, Canvas& canvas) {
  const int32_t across = int32_t(b.width / side) / 2, down = int32_t(b.height / side) / 2;
  const float middle_x = b.left + b.width / 2, middle_y = b.top + b.height / 2;
  canvas.rectangle({b.left, b.top}, {b.left + b.width, b.top + b.height}, kGround);
  const float reach = side * (float(s.view) + 0.5f);
  canvas.rectangle({middle_x - reach, middle_y - reach}, {middle_x + reach, middle_y + reach},
                   kSeen);
  for (int32_t dy = -down; dy <= down; ++dy)
    for (int32_t dx = -across; dx <= across; ++dx) {
      const uint32_t cell = s.world.get(around(s, dx, dy));
      if (cell == 0) continue;
      canvas.disc({middle_x + side * float(dx), middle_y + side * float(dy)}, 0.36f * side,
                  cell == s.food ? kFood : kPoison);
    }
  canvas.disc({middle_x, middle_y}, 0.46f * side, kAgent);
}

/// All of the world, and where the agent is.
inline void paint_world(const Scene& s, const Box& b, Canvas& canvas) {
  const float side = std::min(b.width / float(s.world.width), b.height / float(s.world.height));
  canvas.rectangle({b.left, b.top},
                   {b.left + side * float(s.world.width), b.top + side * float(s.world.height)},
                   kGround);
  const auto middle = [&](CellAt c) {
    return PixelPoint{b.left + side * (float(c.x) + 0.5f), b.top + side * (float(c.y) + 0.5f)};
  };
  for (int32_t y = 0; y < s.world.height; ++y)
    for (int32_t x = 0; x < s.world.width; ++x)
      if (const uint32_t cell = s.world.get({x, y}))
        canvas.disc(middle({x, y}), std::max(0.7f, 0.6f * side), cell == s.food ? kFood : kPoison);
  canvas.disc(middle(s.agent), std::max(1.f, 1.6f * side), kAgent);
}

/// The window as the policy gets it: what looks like food green, like poison purple, like either
/// white, and grey what interests it less.
inline void paint_sight(const Scene& s, const Box& b, Canvas& canvas) {
  const float side = b.width / float(2 * s.view + 1);
  for (int32_t dy = -s.view; dy <= s.view; ++dy)
    for (int32_t dx = -s.view; dx <= s.view; ++dx) {
      const float* seen = s.sight.data() + 2 * s.world.get(around(s, dx, dy));
      const auto mix = [&](uint8_t ground, uint8_t food, uint8_t poison) {
        const float light = float(ground) + seen[0] * (float(food) - float(ground)) +
                            seen[1] * (float(poison) - float(ground));
        return uint8_t(std::clamp(light, 0.f, 255.f));
      };
      const PixelPoint at{b.left + side * float(dx + s.view), b.top + side * float(dy + s.view)};
      canvas.rectangle(at, {at.x + side, at.y + side},
                       {mix(kSeen.r, kFood.r, kPoison.r), mix(kSeen.g, kFood.g, kPoison.g),
                        mix(kSeen.b, kFood.b, kPoison.b)});
    }
  const float half = b.width / 2;
  canvas.disc({b.left + half, b.top + half}, 0.3f * side, kAgent);
}

inline void paint(const Scene& s, Canvas& canvas) {
  const float width = float(canvas.width()), height = float(canvas.height());
  const float gap = 0.02f * width, side = 0.3f * width;  // of the panels on the right
  canvas.fill(kBack);

  const Box near{gap, gap, width - side - 3 * gap, height - 2 * gap};
  paint_neighbourhood(s, near, side / 9, canvas);
  Box panel{width - side - gap, gap, side, side};
  paint_world(s, panel, canvas);
  panel.top += side + gap;
  paint_sight(s, panel, canvas);

  // half full at an episode's start, never quite full
  const float share = 1 - std::exp2(-std::max(0.f, s.energy) / s.energy_start);
  panel.top += side + gap;
  panel.height = 0.5f * side / 3;
  canvas.rectangle({panel.left, panel.top}, {panel.left + side, panel.top + panel.height}, kGround);
  canvas.rectangle({panel.left, panel.top}, {panel.left + share * side, panel.top + panel.height},
                   share < 0.25f ? kDanger : kAgent);

  // words where there is room for them
  const int dot = int(width) / 300;
  if (dot < 2) return;
  char energy[40];
  std::snprintf(energy, sizeof energy, "energy %.2f", double(s.energy));
  write_text(canvas, {panel.left, panel.top + panel.height + gap}, energy, dot, kText);
}

}  // namespace maglev::goodhart
