#pragma once
// Contacts by sequential impulses (Catto, "Iterative Dynamics with Temporal Coherence", GDC 2005;
// "Modeling and Solving Constraints", GDC 2009), with the behaviour of Box2D 2.3: restitution above
// 1 m/s, Coulomb friction, impulses kept from step to step, overlap removed by moving the bodies.
// Iterations stop when nothing changes any more, at the latest after Box2D's number.

#include "envs/hockey/rink.h"

namespace maglev::rink {

constexpr int kVelocityIterations = 180, kPositionIterations = 60;
constexpr int kMaxContacts = 12;

/// A body that moves: its centre of mass, angle and their rates. m, rad, s.
struct Body {
  Vec centre;
  float angle;
  Vec velocity;
  float spin;
};

/// Inverse masses; a body that does not move has none.
struct Inertia {
  float per_kg, per_kgm2;
};
MAGLEV_HD Inertia inertia_of(int body) {
  if (body < kPuck) return {1.f / kRacketKg, 1.f / kRacketInertia};
  return {1.f / kPuckKg, 1.f / kPuckInertia};
}
MAGLEV_HD float centre_x_of(int body) {
  return body == kPlayerOne ? kRacketCentreX : body == kPlayerTwo ? -kRacketCentreX : 0.f;
}
/// The frame of a body's shape.
MAGLEV_HD Pose pose_of(int body, const Body& b) {
  if (body == kPuck) return {b.centre, 1.f, 0.f};
  Pose p{{0.f, 0.f}, cosf(b.angle), sinf(b.angle)};
  p.origin = b.centre - turn(p, {centre_x_of(body), 0.f});
  return p;
}

/// Two shapes that touch. Shape a may be fixed (a = kBodies + its index); b always moves.
struct Contact {
  int a, b;
  float friction, restitution;
  float skins;  ///< of both together
  Manifold touch;
  float push[2], drag[2];  ///< impulses along the normal and across, N s

  // at the positions of this step
  Vec normal;  ///< from a to b
  Vec from_a[2], from_b[2];
  float push_mass[2], drag_mass[2], bounce[2];

  MAGLEV_HD bool a_is_fixed() const { return a >= kBodies; }
};

/// The point in the middle between the shapes and how far apart they are there.
struct Meeting {
  Vec normal;  ///< from a to b
  Vec point;
  float separation;
};

/// `on_surface`: the point on the middle of the overlap, else the one on the other shape's
/// skeleton.
MAGLEV_HD Meeting meeting(const Contact& c, int k, const Pose& a, const Pose& b, bool on_surface) {
  const Pose& face = c.touch.on_b ? b : a;
  const Pose& other = c.touch.on_b ? a : b;
  const Vec normal = turn(face, c.touch.normal);
  const Vec p = to_world(other, c.touch.point[k]);
  const float apart = dot(p - to_world(face, c.touch.face), normal);
  Meeting m{c.touch.on_b ? -normal : normal, p, apart - c.skins};
  if (on_surface) {
    const float of_other = c.b == kPuck ? kPuckRadius : kSkin, of_face = c.skins - of_other;
    m.point = p + (0.5f * (of_face - apart - of_other)) * normal;
  }
  return m;
}

/// Lever arms, effective masses and the speed to bounce back with, at the bodies' present states.
MAGLEV_HD_SELDOM void prepare(Contact& c, const Body* bodies, const Pose* poses) {
  const Pose none;
  const bool fixed = c.a_is_fixed();
  const Inertia ia = fixed ? Inertia{0.f, 0.f} : inertia_of(c.a), ib = inertia_of(c.b);
  const Body still{};
  const Body& a = fixed ? still : bodies[c.a];
  const Body& b = bodies[c.b];
  for (int k = 0; k < c.touch.count; ++k) {
    const Meeting m = meeting(c, k, fixed ? none : poses[c.a], poses[c.b], true);
    c.normal = m.normal;
    c.from_a[k] = m.point - a.centre;
    c.from_b[k] = m.point - b.centre;
    auto mass_along = [&](Vec axis) {
      const float ra = cross(c.from_a[k], axis), rb = cross(c.from_b[k], axis);
      return 1.f / (ia.per_kg + ib.per_kg + ia.per_kgm2 * ra * ra + ib.per_kgm2 * rb * rb);
    };
    c.push_mass[k] = mass_along(c.normal);
    c.drag_mass[k] = mass_along(right_of(c.normal));
    const Vec relative =
        b.velocity + cross(b.spin, c.from_b[k]) - a.velocity - cross(a.spin, c.from_a[k]);
    const float approach = dot(relative, c.normal);
    c.bounce[k] = approach < -1.f ? -c.restitution * approach : 0.f;
  }
}

/// Adds impulse p at point k of both bodies.
MAGLEV_HD void apply(const Contact& c, int k, Vec p, Body* bodies) {
  if (!c.a_is_fixed()) {
    const Inertia i = inertia_of(c.a);
    Body& a = bodies[c.a];
    a.velocity = a.velocity - i.per_kg * p;
    a.spin -= i.per_kgm2 * cross(c.from_a[k], p);
  }
  const Inertia i = inertia_of(c.b);
  Body& b = bodies[c.b];
  b.velocity = b.velocity + i.per_kg * p;
  b.spin += i.per_kgm2 * cross(c.from_b[k], p);
}

/// One pass over a contact: friction first, then the normal, which matters more. Returns how fast
/// the contact's points still change, m/s.
MAGLEV_HD float iterate(Contact& c, Body* bodies) {
  const Vec across = right_of(c.normal);
  float change = 0.f;
  for (int turn = 0; turn < 2; ++turn)
    for (int k = 0; k < c.touch.count; ++k) {
      const Body still{};
      const Body& a = c.a_is_fixed() ? still : bodies[c.a];
      const Body& b = bodies[c.b];
      const Vec relative =
          b.velocity + cross(b.spin, c.from_b[k]) - a.velocity - cross(a.spin, c.from_a[k]);
      float delta;
      if (turn == 0) {
        const float most = c.friction * c.push[k];
        float drag = c.drag[k] - c.drag_mass[k] * dot(relative, across);
        drag = drag < -most ? -most : drag > most ? most : drag;
        delta = drag - c.drag[k];
        c.drag[k] = drag;
        apply(c, k, delta * across, bodies);
        delta /= c.drag_mass[k];
      } else {
        float push = c.push[k] - c.push_mass[k] * (dot(relative, c.normal) - c.bounce[k]);
        push = push < 0.f ? 0.f : push;
        delta = push - c.push[k];
        c.push[k] = push;
        apply(c, k, delta * c.normal, bodies);
        delta /= c.push_mass[k];
      }
      change = fmaxf(change, fabsf(delta));
    }
  return change;
}

/// Impulses of `count` contacts until they hold together.
MAGLEV_HD_SELDOM void solve_velocities(Contact* contacts, int count, Body* bodies) {
  for (int i = 0; i < kVelocityIterations; ++i) {
    float change = 0.f;
    for (int k = 0; k < count; ++k) change = fmaxf(change, iterate(contacts[k], bodies));
    // below what floats of these speeds resolve
    if (!(change > 1e-6f)) break;
  }
}

/// How strongly overlap is removed, and how little of it ends the iterations.
struct Correction {
  float rate, enough;
  int iterations;
};
MAGLEV_HD Correction each_step() { return {0.2f, -3.f * kSlop, kPositionIterations}; }
MAGLEV_HD Correction at_impact() { return {0.75f, -1.5f * kSlop, 20}; }

/// Moves bodies apart, without touching velocities; poses follow.
MAGLEV_HD_SELDOM void solve_positions(const Contact* contacts, int count, const Correction& how,
                                      Body* bodies, Pose* poses) {
  constexpr float most = 0.2f;  // m, of one correction
  for (int i = 0; i < how.iterations; ++i) {
    float deepest = 0.f;
    for (int n = 0; n < count; ++n) {
      const Contact& c = contacts[n];
      const bool fixed = c.a_is_fixed();
      const Inertia ia = fixed ? Inertia{0.f, 0.f} : inertia_of(c.a), ib = inertia_of(c.b);
      for (int k = 0; k < c.touch.count; ++k) {
        const Pose none;
        const Meeting m = meeting(c, k, fixed ? none : poses[c.a], poses[c.b], false);
        deepest = fminf(deepest, m.separation);
        const float wanted = how.rate * (m.separation + kSlop);
        const float overlap = wanted < -most ? -most : wanted > 0.f ? 0.f : wanted;
        const Vec ra = fixed ? Vec{0.f, 0.f} : m.point - bodies[c.a].centre;
        const Vec rb = m.point - bodies[c.b].centre;
        const float na = cross(ra, m.normal), nb = cross(rb, m.normal);
        const float k_sum = ia.per_kg + ib.per_kg + ia.per_kgm2 * na * na + ib.per_kgm2 * nb * nb;
        const Vec p = (-overlap / k_sum) * m.normal;
        if (!fixed) {
          bodies[c.a].centre = bodies[c.a].centre - ia.per_kg * p;
          bodies[c.a].angle -= ia.per_kgm2 * cross(ra, p);
          poses[c.a] = pose_of(c.a, bodies[c.a]);
        }
        bodies[c.b].centre = bodies[c.b].centre + ib.per_kg * p;
        bodies[c.b].angle += ib.per_kgm2 * cross(rb, p);
        poses[c.b] = pose_of(c.b, bodies[c.b]);
      }
    }
    if (deepest >= how.enough) break;
  }
}

/// Positions a time h later. Nothing moves more than 2 m or a quarter turn in it.
MAGLEV_HD void advance(Body& b, float h) {
  const Vec way = h * b.velocity;
  const float square = dot(way, way);
  if (square > 4.f) b.velocity = (2.f / sqrtf(square)) * b.velocity;
  const float turned = fabsf(h * b.spin);
  if (turned > 0.5f * kPi) b.spin *= 0.5f * kPi / turned;
  b.centre = b.centre + h * b.velocity;
  b.angle += h * b.spin;
}

}  // namespace maglev::rink
