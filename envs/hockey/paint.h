#pragma once
// The rink as a picture, from above: what people watch. Host only.

#include <algorithm>
#include <vector>

#include "base/picture/canvas.h"
#include "envs/hockey/game.h"

namespace maglev::rink {

/// Draws a game into the whole canvas; a player that keeps the puck has a ring around it.
inline void paint_game(const Game& game, Canvas& canvas) {
  constexpr Rgb outside{34, 40, 49}, ice{247, 249, 251}, line{196, 205, 214}, wall{72, 82, 94};
  constexpr Rgb zone{224, 235, 244}, net{238, 202, 138}, black{20, 20, 20};
  constexpr Rgb player[2] = {{235, 98, 53}, {70, 130, 190}};
  // metres to pixels: the whole rink with its walls fits
  const float scale = std::min(float(canvas.width()) / 9.2f, float(canvas.height()) / 7.6f);
  const float middle_x = 0.5f * float(canvas.width()), middle_y = 0.5f * float(canvas.height());
  auto pixel = [&](Vec p) { return PixelPoint{middle_x + scale * p.x, middle_y - scale * p.y}; };
  auto box = [&](Vec from, Vec to, Rgb colour) {
    canvas.rectangle(pixel({from.x, to.y}), pixel({to.x, from.y}), colour);
  };
  auto polygon = [&](const Polygon& shape, const Pose& pose, Rgb colour) {
    std::vector<PixelPoint> corners;
    for (int i = 0; i < shape.count; ++i) corners.push_back(pixel(to_world(pose, shape.vertex[i])));
    canvas.polygon(corners, colour);
  };

  canvas.fill(outside);
  box({-kGoalX, -kWallY}, {kGoalX, kWallY}, ice);
  for (int p = 0; p < 2; ++p) {
    const float side = Game::side(p);
    canvas.ring(pixel({-side * kCornerX, 0.f}), scale * 1.25f, 0.05f * scale, line);
    box({std::min(-side * kCornerX, -side * 4.6f), -4.f},
        {std::max(-side * kCornerX, -side * 4.6f), 4.f}, outside);
    box({std::min(-side * kCornerX, -side * kGoalX), -1.37f},
        {std::max(-side * kCornerX, -side * kGoalX), 1.37f}, net);
  }
  box({-kZone, -kWallY}, {kZone, kWallY}, zone);
  canvas.ring(pixel({0.f, 0.f}), scale, 0.05f * scale, line);
  box({-0.025f, -kWallY}, {0.025f, kWallY}, line);
  for (int i = 0; i < kWalls; ++i) polygon(fixed_shape(i), Pose{}, wall);

  for (int p = 0; p < 2; ++p) polygon(racket(p), game.world.pose[p], player[p]);
  const PixelPoint puck = pixel(game.world.body[kPuck].centre);
  canvas.disc(puck, scale * kPuckRadius, black);
  for (int p = 0; p < 2; ++p)
    if (game.has[p] > 0) canvas.ring(puck, scale * 0.3f, 0.06f * scale, player[p]);
}

}  // namespace maglev::rink
