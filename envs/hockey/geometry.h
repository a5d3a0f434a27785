#pragma once
// Plane vectors, convex polygons and where two shapes touch: clipping of polygons against each
// other (Catto, "Contact Manifolds", GDC 2007) and a circle against a polygon's nearest feature.
// Metres; polygons are counter-clockwise and have a skin of kSkin around them, as in Box2D.

#include <cmath>
#include <cstdint>

#include "base/core/hd.h"

// large and seldom called: kept out of line, so that a step without contacts stays small
#if defined(__CUDACC__)
#define MAGLEV_HD_SELDOM __host__ __device__ __noinline__ inline
#else
#define MAGLEV_HD_SELDOM [[gnu::noinline]] inline
#endif

namespace maglev::rink {

struct Vec {
  float x, y;
};
MAGLEV_HD constexpr Vec operator+(Vec a, Vec b) { return {a.x + b.x, a.y + b.y}; }
MAGLEV_HD constexpr Vec operator-(Vec a, Vec b) { return {a.x - b.x, a.y - b.y}; }
MAGLEV_HD constexpr Vec operator-(Vec a) { return {-a.x, -a.y}; }
MAGLEV_HD constexpr Vec operator*(float k, Vec a) { return {k * a.x, k * a.y}; }
MAGLEV_HD constexpr float dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y; }
MAGLEV_HD constexpr float cross(Vec a, Vec b) { return a.x * b.y - a.y * b.x; }
/// Velocity of the point at r of a body that turns at w.
MAGLEV_HD constexpr Vec cross(float w, Vec r) { return {-w * r.y, w * r.x}; }
/// The direction a quarter turn clockwise of a.
MAGLEV_HD constexpr Vec right_of(Vec a) { return {a.y, -a.x}; }
MAGLEV_HD float length(Vec a) { return sqrtf(dot(a, a)); }
MAGLEV_HD Vec unit(Vec a) { return (1.f / length(a)) * a; }

/// A frame in the world: where its origin is and how it is turned.
struct Pose {
  Vec origin{0.f, 0.f};
  float cosine = 1.f, sine = 0.f;
};
MAGLEV_HD Vec turn(const Pose& p, Vec a) {
  return {p.cosine * a.x - p.sine * a.y, p.sine * a.x + p.cosine * a.y};
}
MAGLEV_HD Vec turn_back(const Pose& p, Vec a) {
  return {p.cosine * a.x + p.sine * a.y, -p.sine * a.x + p.cosine * a.y};
}
MAGLEV_HD Vec to_world(const Pose& p, Vec a) { return turn(p, a) + p.origin; }
MAGLEV_HD Vec to_local(const Pose& p, Vec a) { return turn_back(p, a - p.origin); }

constexpr int kMaxVertices = 7;
constexpr float kSlop = 0.005f;       ///< overlap that is left alone
constexpr float kSkin = 2.f * kSlop;  ///< of a polygon

struct Polygon {
  int count = 0;
  Vec vertex[kMaxVertices] = {};
  Vec normal[kMaxVertices] = {};  ///< outward, of the edge from vertex i to i + 1

  MAGLEV_HD constexpr int after(int i) const { return i + 1 < count ? i + 1 : 0; }
};

/// Where two shapes touch, in their own frames, so that it stays valid while they move a little.
struct Manifold {
  int count = 0;        ///< points, at most 2
  bool on_b = false;    ///< the face belongs to shape b; else to a
  Vec normal = {};      ///< outward of the face, in its frame
  Vec face = {};        ///< a point of the face, in its frame
  Vec point[2] = {};    ///< on the other shape, in its frame
  uint32_t id[2] = {};  ///< which features meet: equal in the next step when the point persists
};

/// Polygon a and a circle b of `radius`, its centre given in the world. One point at most.
MAGLEV_HD_SELDOM void touch_circle(const Polygon& a, const Pose& pose, Vec centre, float radius,
                                   Manifold& out) {
  out.count = 0;
  out.on_b = false;
  const Vec c = to_local(pose, centre);
  const float reach = radius + kSkin;

  int edge = 0;
  float separation = -1e30f;
  for (int i = 0; i < a.count; ++i) {
    const float s = dot(a.normal[i], c - a.vertex[i]);
    if (s > reach) return;
    if (s > separation) separation = s, edge = i;
  }

  const Vec v1 = a.vertex[edge], v2 = a.vertex[a.after(edge)];
  out.normal = a.normal[edge];
  out.face = 0.5f * (v1 + v2);
  // outside and beyond an end of the edge: that corner pushes
  const bool before = dot(c - v1, v2 - v1) <= 0.f, behind = dot(c - v2, v1 - v2) <= 0.f;
  if (separation >= 1.1920929e-7f && (before || behind)) {
    const Vec corner = before ? v1 : v2;
    const Vec away = c - corner;
    if (dot(away, away) > reach * reach) return;
    out.normal = unit(away);
    out.face = corner;
  }
  out.point[0] = {0.f, 0.f};
  out.id[0] = 0;
  out.count = 1;
}

/// The edge of a along whose normal b is farthest away, and how far.
MAGLEV_HD_SELDOM float farthest_edge(const Polygon& a, const Pose& pose_a, const Polygon& b,
                                     const Pose& pose_b, int& edge) {
  float best = -1e30f;
  edge = 0;
  for (int i = 0; i < a.count; ++i) {
    const Vec n = turn_back(pose_b, turn(pose_a, a.normal[i]));
    const Vec v = to_local(pose_b, to_world(pose_a, a.vertex[i]));
    float nearest = 1e30f;
    for (int j = 0; j < b.count; ++j) {
      const float s = dot(n, b.vertex[j] - v);
      if (s < nearest) nearest = s;
    }
    if (nearest > best) best = nearest, edge = i;
  }
  return best;
}

/// Two polygons: the face of least overlap, and the other's edge clipped to its width.
MAGLEV_HD_SELDOM void touch_polygons(const Polygon& a, const Pose& pose_a, const Polygon& b,
                                     const Pose& pose_b, Manifold& out) {
  constexpr float reach = 2.f * kSkin;
  out.count = 0;
  int edge_a, edge_b;
  const float apart_a = farthest_edge(a, pose_a, b, pose_b, edge_a);
  if (apart_a > reach) return;
  const float apart_b = farthest_edge(b, pose_b, a, pose_a, edge_b);
  if (apart_b > reach) return;

  // a's face unless b's is clearly better: the choice must not flicker
  out.on_b = apart_b > apart_a + 0.1f * kSlop;
  const Polygon& one = out.on_b ? b : a;
  const Polygon& two = out.on_b ? a : b;
  const Pose& pose_one = out.on_b ? pose_b : pose_a;
  const Pose& pose_two = out.on_b ? pose_a : pose_b;
  const int edge = out.on_b ? edge_b : edge_a;

  // the other's edge that faces it most
  const Vec facing = turn_back(pose_two, turn(pose_one, one.normal[edge]));
  int incident = 0;
  float least = 1e30f;
  for (int i = 0; i < two.count; ++i) {
    const float d = dot(facing, two.normal[i]);
    if (d < least) least = d, incident = i;
  }
  const int ends[2] = {incident, two.after(incident)};
  Vec clip[2] = {to_world(pose_two, two.vertex[ends[0]]), to_world(pose_two, two.vertex[ends[1]])};
  uint32_t id[2] = {uint32_t(ends[0]), uint32_t(ends[1])};

  const Vec v1 = to_world(pose_one, one.vertex[edge]);
  const Vec v2 = to_world(pose_one, one.vertex[one.after(edge)]);
  const Vec normal = turn(pose_one, one.normal[edge]);
  const Vec tangent = -right_of(normal);

  // clipped to the face's width, extended by the skins
  for (int side = 0; side < 2; ++side) {
    const Vec out_of = side ? tangent : -tangent;
    const float limit = dot(out_of, side ? v2 : v1) + reach;
    const float d0 = dot(out_of, clip[0]) - limit, d1 = dot(out_of, clip[1]) - limit;
    if (d0 > 0.f && d1 > 0.f) return;
    if (d0 > 0.f || d1 > 0.f) {
      // the point that stays comes first: the order decides which one yields first
      const int stays = d0 > 0.f ? 1 : 0;
      const Vec cut = clip[0] + (d0 / (d0 - d1)) * (clip[1] - clip[0]);
      clip[0] = clip[stays], id[0] = id[stays];
      clip[1] = cut, id[1] = 16u + uint32_t(side);
    }
  }

  out.normal = one.normal[edge];
  out.face = 0.5f * (one.vertex[edge] + one.vertex[one.after(edge)]);
  for (int i = 0; i < 2; ++i) {
    if (dot(normal, clip[i] - v1) > reach) continue;
    out.point[out.count] = to_local(pose_two, clip[i]);
    out.id[out.count] = (out.on_b ? 4096u : 0u) + 64u * uint32_t(edge) + id[i];
    ++out.count;
  }
}

/// How far apart two shapes are, skins and radii left out, and the direction from a to b.
struct Gap {
  float distance;  ///< 0 or less: they overlap
  Vec towards_b;
};

/// The vertex of `points` nearest to polygon a's boundary, when it is the nearest so far.
MAGLEV_HD void nearest_to_edges(const Polygon& a, const Pose& pose_a, const Vec* points, int count,
                                float sign, Gap& nearest) {
  for (int i = 0; i < a.count; ++i) {
    const Vec v1 = to_world(pose_a, a.vertex[i]);
    const Vec along = to_world(pose_a, a.vertex[a.after(i)]) - v1;
    for (int j = 0; j < count; ++j) {
      const float s = dot(points[j] - v1, along) / dot(along, along);
      const Vec on_edge = v1 + (s < 0.f ? 0.f : s > 1.f ? 1.f : s) * along;
      const Vec between = points[j] - on_edge;
      const float d = length(between);
      if (d < nearest.distance) nearest = {d, (sign / (d > 1e-12f ? d : 1e-12f)) * between};
    }
  }
}

/// Polygon a and a convex shape of `count` world points (a circle: its centre). Overlap gives 0.
MAGLEV_HD_SELDOM Gap gap_between(const Polygon& a, const Pose& pose_a, const Polygon& b,
                                 const Pose& pose_b) {
  Gap nearest{1e30f, {0.f, 0.f}};
  Vec points[kMaxVertices] = {};
  int edge;
  // without a separating edge they overlap
  if (farthest_edge(a, pose_a, b, pose_b, edge) <= 0.f &&
      (b.count < 3 || farthest_edge(b, pose_b, a, pose_a, edge) <= 0.f))
    return {0.f, {0.f, 0.f}};
  for (int j = 0; j < b.count; ++j) points[j] = to_world(pose_b, b.vertex[j]);
  nearest_to_edges(a, pose_a, points, b.count, 1.f, nearest);
  if (b.count >= 3) {
    for (int j = 0; j < a.count; ++j) points[j] = to_world(pose_a, a.vertex[j]);
    nearest_to_edges(b, pose_b, points, a.count, -1.f, nearest);
  }
  return nearest;
}

}  // namespace maglev::rink
