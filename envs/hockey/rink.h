#pragma once
// The rink: shapes, masses and limits of the hockey game, in metres, kilograms and seconds, with
// the origin at the rink's centre. Then turning the rink by half a turn swaps the players, and
// negating positions and velocities is exact.

#include "envs/hockey/geometry.h"

namespace maglev::rink {

constexpr float kStep = 0.02f;  ///< s, one step of the game
constexpr float kPi = 3.14159265358979f;

constexpr int kPlayerOne = 0, kPlayerTwo = 1, kPuck = 2, kBodies = 3;
/// What does not move: top and bottom wall, four corners beside the goals, the two goals. The puck
/// passes through goals, rackets do not.
constexpr int kWalls = 6, kFixed = 8;

constexpr float kPuckRadius = 13.f / 60;
constexpr float kPuckDensity = 7.f, kRacketDensity = 200.f / 1.2f;
constexpr float kGoalX = 4.25f, kGoalHalfWidth = 10.f / 60, kGoalHalfHeight = 75.f / 60;
/// Inner faces of the walls, and of the corners.
constexpr float kWallY = 3.5f - 10.f / 60, kCornerX = 245.f / 60 - 10.f / 60;

namespace detail {

constexpr double root(double x) {
  double r = x > 1 ? x : 1;
  for (int i = 0; i < 60; ++i) r = 0.5 * (r + x / r);
  return r;
}

constexpr Polygon with_normals(Polygon p) {
  for (int i = 0; i < p.count; ++i) {
    const Vec e = p.vertex[p.after(i)] - p.vertex[i];
    const double n = root(double(e.x) * e.x + double(e.y) * e.y);
    p.normal[i] = {float(e.y / n), float(-e.x / n)};
  }
  return p;
}

/// Turned by half a turn.
constexpr Polygon turned(Polygon p) {
  for (int i = 0; i < p.count; ++i) p.vertex[i] = -p.vertex[i], p.normal[i] = -p.normal[i];
  return p;
}

/// Seen in a mirror that stands upright; stays counter-clockwise.
constexpr Polygon mirrored(const Polygon& p) {
  Polygon out{.count = p.count};
  for (int i = 0; i < p.count; ++i)
    out.vertex[i] = {-p.vertex[p.count - 1 - i].x, p.vertex[p.count - 1 - i].y};
  return with_normals(out);
}

constexpr Polygon box(Vec centre, Vec half) {
  return with_normals({.count = 4,
                       .vertex = {{centre.x + half.x, centre.y - half.y},
                                  {centre.x + half.x, centre.y + half.y},
                                  {centre.x - half.x, centre.y + half.y},
                                  {centre.x - half.x, centre.y - half.y}}});
}

/// Player one's racket: the flat front towards +x, in the frame of its origin.
constexpr Polygon kRacket = with_normals({.count = 7,
                                          .vertex = {{.1f, -.4f},
                                                     {.1f, .4f},
                                                     {-.2f, .4f},
                                                     {-.36f, .2f},
                                                     {-.42f, 0.f},
                                                     {-.36f, -.2f},
                                                     {-.2f, -.4f}}});

/// The corner left of the bottom wall: from behind the wall up to the goal's mouth.
constexpr Polygon kCorner = with_normals({.count = 4,
                                          .vertex = {{-kCornerX, -3.5f - 5.f / 60},
                                                     {-kCornerX, -3.5f + 128.f / 60},
                                                     {-kGoalX, -3.5f + 135.f / 60},
                                                     {-kGoalX, -3.5f - 5.f / 60}}});

struct Mass {
  double kg = 0, centre_x = 0, inertia = 0;  ///< inertia about the centre of mass, kg m^2
};

/// Of a polygon that is symmetric about the x axis, by triangles from its origin.
constexpr Mass mass_of(const Polygon& p, double density) {
  double area = 0, first = 0, second = 0;
  for (int i = 0; i < p.count; ++i) {
    const Vec a = p.vertex[i], b = p.vertex[p.after(i)];
    const double d = double(a.x) * b.y - double(a.y) * b.x;
    area += d / 2;
    first += d / 6 * (double(a.x) + b.x);
    second += d / 12 *
              (double(a.x) * a.x + double(a.x) * b.x + double(b.x) * b.x + double(a.y) * a.y +
               double(a.y) * b.y + double(b.y) * b.y);
  }
  const double kg = density * area, x = first / area;
  return {kg, x, density * second - kg * x * x};
}
constexpr Mass kRacketMass = mass_of(kRacket, kRacketDensity);

}  // namespace detail

constexpr float kRacketKg = float(detail::kRacketMass.kg);
constexpr float kRacketInertia = float(detail::kRacketMass.inertia);
/// The centre of mass in player one's frame; player two's is at -x.
constexpr float kRacketCentreX = float(detail::kRacketMass.centre_x);
/// Of all its vertices from the centre of mass, at most.
constexpr float kRacketReach = 0.458f;
constexpr float kPuckKg = kPuckDensity * kPi * kPuckRadius * kPuckRadius;
constexpr float kPuckInertia = 0.5f * kPuckKg * kPuckRadius * kPuckRadius;

/// A player's racket, in the frame of its origin.
MAGLEV_HD const Polygon& racket(int player) {
  static constexpr Polygon shapes[2] = {detail::kRacket, detail::turned(detail::kRacket)};
  return shapes[player];
}
/// A circle's centre as a shape.
MAGLEV_HD const Polygon& centre_point() {
  static constexpr Polygon point{.count = 1};
  return point;
}
/// What does not move, in the world. 0 top, 1 bottom, 2..5 corners, 6 player one's goal, 7 two's.
MAGLEV_HD const Polygon& fixed_shape(int i) {
  constexpr Vec wall{250.f / 60, 10.f / 60}, goal{kGoalHalfWidth, kGoalHalfHeight};
  constexpr Polygon other_corner = detail::mirrored(detail::kCorner);
  static constexpr Polygon shapes[kFixed] = {detail::box({0.f, 3.5f}, wall),
                                             detail::box({0.f, -3.5f}, wall),
                                             detail::kCorner,
                                             detail::turned(other_corner),
                                             other_corner,
                                             detail::turned(detail::kCorner),
                                             detail::box({-kGoalX, 0.f}, goal),
                                             detail::box({kGoalX, 0.f}, goal)};
  return shapes[i];
}

}  // namespace maglev::rink
