#pragma once
// One step of the hockey rink's physics: two rackets and a puck between fixed walls, in the order
// Box2D takes: find contacts, velocities, positions, then times of impact with what does not move,
// so that nothing passes through a wall however fast it is.

#include "envs/hockey/solver.h"

namespace maglev::rink {

/// Force at the centre of mass N, torque N m, and damping 1/s of one body in one step.
struct Drive {
  Vec force{0.f, 0.f};
  float torque = 0.f;
  float damping = 0.f, spin_damping = 0.f;
};

/// The impulses a contact point ended the last step with.
struct Remembered {
  uint32_t key;
  float push, drag;
};
constexpr int kMaxRemembered = 16;

/// Everything physics keeps from step to step.
struct World {
  Body body[kBodies];
  Pose pose[kBodies];
  Remembered remembered[kMaxRemembered];
  int32_t remembered_count;
  bool puck_at[2];  ///< the puck touched this player's racket when contacts were last sought

  MAGLEV_HD void place(int i, Vec origin, float angle) {
    body[i] = {origin, angle, {0.f, 0.f}, 0.f};
    pose[i] = {origin, cosf(angle), sinf(angle)};
    body[i].centre = origin + turn(pose[i], {centre_x_of(i), 0.f});
  }
  /// Forgets all contacts.
  MAGLEV_HD void clear() { remembered_count = 0, puck_at[0] = puck_at[1] = false; }
};

/// What began in a step, while its contacts were sought.
struct Begun {
  bool puck_at[2] = {false, false};
  bool in_goal[2] = {false, false};  ///< the puck lies in this player's goal
};

MAGLEV_HD_SELDOM void touch_fixed(const World& w, int body, int fixed, Contact& c) {
  const Pose none;
  const bool puck = body == kPuck;
  c.a = kBodies + fixed;
  c.b = body;
  c.skins = kSkin + (puck ? kPuckRadius : kSkin);
  c.friction = puck ? 0.1f : 0.31622777f;  // roots of the products 0.1 * 0.1 and 0.1 * 1
  c.restitution = puck ? 0.95f : 0.f;
  if (puck) touch_circle(fixed_shape(fixed), none, w.body[body].centre, kPuckRadius, c.touch);
  else touch_polygons(fixed_shape(fixed), none, racket(body), w.pose[body], c.touch);
}

MAGLEV_HD_SELDOM void touch_moving(const World& w, int a, int b, Contact& c) {
  c.a = a;
  c.b = b;
  c.skins = kSkin + (b == kPuck ? kPuckRadius : kSkin);
  c.friction = b == kPuck ? 0.31622777f : 1.f;
  c.restitution = b == kPuck ? 0.95f : 0.f;
  if (b == kPuck) touch_circle(racket(a), w.pose[a], w.body[b].centre, kPuckRadius, c.touch);
  else touch_polygons(racket(a), w.pose[a], racket(b), w.pose[b], c.touch);
}

/// How far a body's shape reaches from its centre, with skins and a margin for rounding.
MAGLEV_HD float reach_of(int body) {
  return (body == kPuck ? kPuckRadius : kRacketReach + kSkin) + kSkin + 0.01f;
}
/// The fixed shapes a body may touch while its centre moves from one point to another: bit i for
/// shape i. 0 in the middle of the rink.
MAGLEV_HD uint32_t fixed_near(int body, Vec from, Vec to) {
  const float r = reach_of(body);
  const float left = fminf(from.x, to.x) - r, right = fmaxf(from.x, to.x) + r;
  const float bottom = fminf(from.y, to.y) - r, top = fmaxf(from.y, to.y) + r;
  if (left > -kCornerX && right < kCornerX && bottom > -kWallY && top < kWallY) return 0;
  constexpr float corner_y = 3.5f - 135.f / 60, goal_x = kGoalX - kGoalHalfWidth;
  const bool above = top > corner_y, below = bottom < -corner_y;
  uint32_t near = uint32_t(top > kWallY) | uint32_t(bottom < -kWallY) << 1;
  near |= uint32_t(left < -kCornerX && below) << 2 | uint32_t(left < -kCornerX && above) << 3 |
          uint32_t(right > kCornerX && below) << 4 | uint32_t(right > kCornerX && above) << 5;
  if (body == kPuck) return near;
  const bool beside = bottom < kGoalHalfHeight && top > -kGoalHalfHeight;
  return near | uint32_t(left < -goal_x && beside) << 6 | uint32_t(right > goal_x && beside) << 7;
}
MAGLEV_HD bool may_touch(const World& w, int a, int b) {
  const Vec d = w.body[b].centre - w.body[a].centre;
  const float r = reach_of(a) + reach_of(b);
  return dot(d, d) < r * r;
}
/// Whether the puck touches the goal on side 1 (x > 0) or -1, or is behind it: no game gives the
/// puck such a speed there that it could leap over the goal in one step.
MAGLEV_HD bool puck_in_goal(Vec puck, float side) {
  const float dx = kGoalX - kGoalHalfWidth - side * puck.x, dy = fabsf(puck.y) - kGoalHalfHeight;
  const Vec out{dx > 0.f ? dx : 0.f, dy > 0.f ? dy : 0.f};
  const float r = kPuckRadius + kSkin;
  return dot(out, out) < r * r;
}

MAGLEV_HD uint32_t key_of(const Contact& c, int k) {
  return uint32_t(c.a) << 24 | uint32_t(c.b) << 16 | c.touch.id[k];
}

/// All contacts at the present positions, with the impulses they ended the last step with.
MAGLEV_HD_SELDOM int find_contacts(World& w, Contact* contacts, Begun& begun) {
  int count = 0;
  auto take = [&](Contact& c) {
    for (int k = 0; k < c.touch.count; ++k) {
      c.push[k] = c.drag[k] = 0.f;
      for (int i = 0; i < w.remembered_count; ++i)
        if (w.remembered[i].key == key_of(c, k))
          c.push[k] = w.remembered[i].push, c.drag[k] = w.remembered[i].drag;
    }
    // there is always room for a next one to try
    if (c.touch.count > 0 && count + 1 < kMaxContacts) ++count;
    return c.touch.count > 0;
  };
  for (int player = 0; player < 2; ++player) {
    touch_moving(w, player, kPuck, contacts[count]);
    const bool touches = take(contacts[count]);
    begun.puck_at[player] = touches && !w.puck_at[player];
    w.puck_at[player] = touches;
  }
  if (may_touch(w, kPlayerOne, kPlayerTwo)) {
    touch_moving(w, kPlayerOne, kPlayerTwo, contacts[count]);
    take(contacts[count]);
  }
  for (int body = 0; body < kBodies; ++body) {
    const uint32_t near = fixed_near(body, w.body[body].centre, w.body[body].centre);
    for (int i = 0; i < kFixed; ++i) {
      if (!(near >> i & 1)) continue;
      touch_fixed(w, body, i, contacts[count]);
      take(contacts[count]);
    }
  }
  return count;
}

/// How far shape b is beyond shape a along a direction; negative: not at all.
MAGLEV_HD float separation_along(Vec axis, const Polygon& a, const Polygon& b, const Pose& pose_b) {
  float front = -1e30f, back = 1e30f;
  for (int i = 0; i < a.count; ++i) front = fmaxf(front, dot(axis, a.vertex[i]));
  for (int i = 0; i < b.count; ++i) back = fminf(back, dot(axis, to_world(pose_b, b.vertex[i])));
  return back - front;
}

/// The fraction of the way from `from` to `to` at which a body comes to a fixed shape; 1: not
/// before its end. Conservative advancement (Mirtich, 1996): no step is longer than the gap allows.
MAGLEV_HD_SELDOM float time_of_impact(int body, int fixed, const Body& from, const Body& to) {
  const bool puck = body == kPuck;
  const Polygon& shape = puck ? centre_point() : racket(body);
  const float skins = kSkin + (puck ? kPuckRadius : kSkin);
  const float target = fmaxf(kSlop, skins - 3.f * kSlop), tolerance = 0.25f * kSlop;
  const Vec way = to.centre - from.centre;
  const float swing = puck ? 0.f : kRacketReach * fabsf(to.angle - from.angle);
  const Pose end = pose_of(body, to);

  // mostly one face of the wall keeps the body off all the way: 2.0 to 2.7 M steps/s by this
  const Polygon& wall = fixed_shape(fixed);
  int edge;
  const float before = farthest_edge(wall, Pose{}, shape, pose_of(body, from), edge);
  if (before > target + tolerance &&
      separation_along(wall.normal[edge], wall, shape, end) > target - tolerance)
    return 1.f;

  float t = 0.f;
  for (int i = 0; i < 64; ++i) {
    Body at = from;
    at.centre = from.centre + t * way;
    at.angle = from.angle + t * (to.angle - from.angle);
    const Gap gap = gap_between(wall, Pose{}, shape, pose_of(body, at));
    if (gap.distance <= 0.f) return 1.f;  // overlapping: left to the next step's contacts
    if (gap.distance < target + tolerance) return t;
    // a way that ends before the wall, or at it, is no impact
    if (separation_along(gap.towards_b, wall, shape, end) > target - tolerance) return 1.f;
    const float approach = swing - dot(way, gap.towards_b);
    if (approach <= 0.f) return 1.f;
    t += (gap.distance - target) / approach;
    if (!(t < 1.f)) return 1.f;
  }
  return t;
}

/// Stops a body at each wall it would pass on the way from `start`, and lets it bounce there.
/// `near`: the shapes it may meet on that way.
MAGLEV_HD_SELDOM void stop_at_walls(World& w, int body, Body start, uint32_t near) {
  constexpr int most_impacts = 8;
  int impacts[kFixed] = {};
  bool ignored[kFixed] = {};
  float done = 0.f;  // of the step
  for (int guard = 0; guard < 4 * most_impacts; ++guard) {
    Body& b = w.body[body];
    float first = 1.f;
    int hit = -1;
    for (int i = 0; i < kFixed; ++i) {
      if (!(near >> i & 1) || ignored[i] || impacts[i] > most_impacts) continue;
      const float t = time_of_impact(body, i, start, b);
      const float alpha = t < 1.f ? fminf(done + (1.f - done) * t, 1.f) : 1.f;
      if (alpha < first) first = alpha, hit = i;
    }
    if (hit < 0 || first > 1.f - 1.2e-6f) return;

    // to the impact, then only what touches there is solved
    const Body before = b;
    const float part = done < 1.f ? (first - done) / (1.f - done) : 1.f;
    b.centre = start.centre + part * (b.centre - start.centre);
    b.angle = start.angle + part * (b.angle - start.angle);
    w.pose[body] = pose_of(body, b);
    Contact contacts[kFixed];
    int count = 0;
    touch_fixed(w, body, hit, contacts[0]);
    ++impacts[hit];
    if (contacts[0].touch.count == 0) {
      b = before;
      w.pose[body] = pose_of(body, b);
      ignored[hit] = true;
      continue;
    }
    count = 1;
    for (int i = 0; i < kFixed; ++i) {
      if (!(near >> i & 1) || i == hit) continue;
      touch_fixed(w, body, i, contacts[count]);
      if (contacts[count].touch.count > 0) ++count;
    }
    solve_positions(contacts, count, at_impact(), w.body, w.pose);
    start = b;
    done = first;
    for (int i = 0; i < count; ++i) {
      contacts[i].push[0] = contacts[i].push[1] = contacts[i].drag[0] = contacts[i].drag[1] = 0.f;
      prepare(contacts[i], w.body, w.pose);
    }
    solve_velocities(contacts, count, w.body);
    advance(b, (1.f - done) * kStep);
    w.pose[body] = pose_of(body, b);
    near = fixed_near(body, start.centre, b.centre);
  }
}

/// Velocities and positions of bodies that touch something, as one problem for each group of
/// bodies that touch each other.
MAGLEV_HD_SELDOM void solve_contacts(World& w, Contact* contacts, int count) {
  // the group of a body is the lowest body it hangs together with
  int group[kBodies] = {0, 1, 2};
  for (int pass = 0; pass < kBodies; ++pass)
    for (int i = 0; i < count; ++i)
      if (!contacts[i].a_is_fixed()) {
        int &a = group[contacts[i].a], &b = group[contacts[i].b];
        a = b = a < b ? a : b;
      }
  // sorted by group: each is a run of contacts
  int begin[kBodies + 1] = {};
  int filled = 0;
  for (int g = 0; g < kBodies; ++g) {
    begin[g] = filled;
    for (int i = filled; i < count; ++i)
      if (group[contacts[i].b] == g) {
        if (i != filled) {
          const Contact other = contacts[filled];
          contacts[filled] = contacts[i];
          contacts[i] = other;
        }
        ++filled;
      }
  }
  begin[kBodies] = filled;

  for (int i = 0; i < count; ++i) prepare(contacts[i], w.body, w.pose);
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < contacts[i].touch.count; ++k)
      apply(contacts[i], k,
            contacts[i].push[k] * contacts[i].normal +
                contacts[i].drag[k] * right_of(contacts[i].normal),
            w.body);
  for (int g = 0; g < kBodies; ++g)
    solve_velocities(contacts + begin[g], begin[g + 1] - begin[g], w.body);
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < contacts[i].touch.count; ++k)
      if (w.remembered_count < kMaxRemembered)
        w.remembered[w.remembered_count++] = {key_of(contacts[i], k), contacts[i].push[k],
                                              contacts[i].drag[k]};
  for (int body = 0; body < kBodies; ++body) {
    advance(w.body[body], kStep);
    w.pose[body] = pose_of(body, w.body[body]);
  }
  for (int g = 0; g < kBodies; ++g)
    solve_positions(contacts + begin[g], begin[g + 1] - begin[g], each_step(), w.body, w.pose);
}

/// Contacts of this step are found first, so `begun` tells of where the last step ended.
MAGLEV_HD void step_world(World& w, const Drive* drive, Begun& begun) {
  Body start[kBodies];
  for (int i = 0; i < kBodies; ++i) start[i] = w.body[i];
  // the whole rest is idle while everything keeps apart
  bool apart = !may_touch(w, kPlayerOne, kPuck) && !may_touch(w, kPlayerTwo, kPuck) &&
               !may_touch(w, kPlayerOne, kPlayerTwo);
  for (int i = 0; i < kBodies; ++i)
    apart = apart && !fixed_near(i, start[i].centre, start[i].centre);
  begun.in_goal[0] = puck_in_goal(w.body[kPuck].centre, -1.f);
  begun.in_goal[1] = puck_in_goal(w.body[kPuck].centre, 1.f);

  for (int i = 0; i < kBodies; ++i) {
    const Inertia inertia = inertia_of(i);
    Body& b = w.body[i];
    const float keep = 1.f - kStep * drive[i].damping,
                keep_spin = 1.f - kStep * drive[i].spin_damping;
    b.velocity = b.velocity + (kStep * inertia.per_kg) * drive[i].force;
    b.spin += kStep * inertia.per_kgm2 * drive[i].torque;
    b.velocity = (keep < 0.f ? 0.f : keep) * b.velocity;
    b.spin *= keep_spin < 0.f ? 0.f : keep_spin;
  }
  if (apart) {
    w.clear();
    for (int i = 0; i < kBodies; ++i) {
      advance(w.body[i], kStep);
      w.pose[i] = pose_of(i, w.body[i]);
    }
  } else {
    // contacts depend on positions alone, which have not moved yet
    Contact contacts[kMaxContacts];
    const int count = find_contacts(w, contacts, begun);
    w.remembered_count = 0;
    solve_contacts(w, contacts, count);
  }
  for (int i = 0; i < kBodies; ++i) {
    const uint32_t near = fixed_near(i, start[i].centre, w.body[i].centre);
    if (near) stop_at_walls(w, i, start[i], near);
  }
}

}  // namespace maglev::rink
