#pragma once
// The foundry as a picture: machines as squares in the colour of what they make, dark while they
// rest, agents as discs in the colour of their team with what they carry. Host only.

#include <algorithm>
#include <cstdio>

#include "base/picture/canvas.h"
#include "base/picture/text.h"
#include "envs/foundry/phases.h"

namespace maglev::foundry {

constexpr Rgb kBack{16, 18, 24}, kFloor{32, 36, 44}, kWallGrey{88, 94, 104}, kIce{150, 206, 240};
constexpr Rgb kGoodColours[kGoods] = {
    {196, 140, 84}, {240, 206, 84}, {226, 86, 118}, {104, 214, 150}, {150, 158, 210}};
constexpr Rgb kTeamColours[kAgents] = {{84, 158, 240},  {240, 132, 60},  {180, 120, 230},
                                       {120, 200, 90},  {230, 230, 230}, {60, 200, 200},
                                       {220, 170, 200}, {170, 160, 90}};

inline Rgb dimmed(Rgb c) { return {uint8_t(c.r / 3), uint8_t(c.g / 3), uint8_t(c.b / 3)}; }

inline void paint(const Settings& p, const State& s, Canvas& canvas) {
  const float width = float(p.width), height = float(p.height);
  const View view(canvas.width(), canvas.height(), width / 2, height / 2, width + 1, height + 2.6f);
  const Map map(p, s);
  // rows count from the north, the plane's y points there
  const auto at = [&](float x, float y) { return view(x, height - y); };
  const auto box = [&](float x, float y, float inset, Rgb colour) {
    canvas.rectangle(at(x + inset, y + inset), at(x + 1 - inset, y + 1 - inset), colour);
  };
  canvas.fill(kBack);
  canvas.rectangle(at(0, 0), at(width, height), kFloor);
  for (int32_t cell = 0; cell < p.cells(); ++cell) {
    const uint8_t code = map[cell];
    const float x = float(cell % p.width), y = float(cell / p.width);
    if (code == kWall) box(x, y, 0.02f, kWallGrey);
    if (code < kMachineCode || code >= kAgentCode) continue;
    const int32_t machine = code - kMachineCode;
    const Rgb colour = kGoodColours[recipe_of(p, p.kind_of(machine)).makes];
    box(x, y, 0.06f, s.resting[machine] ? dimmed(colour) : colour);
    // a mine is a hole in the ground, an altar has a bright middle
    if (p.kind_of(machine) == kMine) box(x, y, 0.3f, kBack);
    if (p.kind_of(machine) == kAltar) box(x, y, 0.36f, {250, 226, 232});
  }
  int32_t hearts = 0;
  for (const Agent& a : s.agents) {
    const float x = float(a.x) + 0.5f, y = float(a.y) + 0.5f;
    const float dx = a.facing == 1 ? 1.f : a.facing == 3 ? -1.f : 0.f;
    const float dy = a.facing == 0 ? -1.f : a.facing == 2 ? 1.f : 0.f;
    hearts += a.goods[kHeart];
    if (a.last == kAttack)
      canvas.line(at(x, y), at(x + kReach * dx, y + kReach * dy), 0.12f * view.scale,
                  kGoodColours[kLaser]);
    canvas.disc(at(x, y), 0.44f * view.scale, kTeamColours[a.team]);
    if (a.frozen) canvas.ring(at(x, y), 0.44f * view.scale, 0.16f * view.scale, kIce);
    canvas.disc(at(x + 0.3f * dx, y + 0.3f * dy), 0.14f * view.scale, kBack);
    // what it carries, from left to right
    for (int g = 0; g < kGoods; ++g)
      if (a.goods[g] > 0)
        canvas.disc(at(x + 0.2f * float(g - 2), y + 0.12f), 0.1f * view.scale, kGoodColours[g]);
  }
  // words where there is room for them
  const int dot = canvas.width() / 300;
  if (dot < 2) return;
  char text[60];
  std::snprintf(text, sizeof text, "step %d  hearts %d", s.steps, hearts);
  const PixelPoint corner = at(0, height + 0.2f);
  write_text(canvas, corner, text, dot, {206, 214, 222});
}

}  // namespace maglev::foundry
