#pragma once
// The rink in Box2D, for tests: what the solver is compared with. Box2D 2.4 damps by 1 / (1 + dt c)
// where the game's 2.3 takes 1 - dt c, so that coefficients are converted.

#include <algorithm>
#include <utility>
#include <vector>

#include <box2d/box2d.h>

#include "envs/hockey/game.h"

namespace maglev::rink {

class Box2dRink : b2ContactListener {
 public:
  /// Bodies where `world` has them, without contacts.
  explicit Box2dRink(const World& world) : world_({0.f, 0.f}) {
    for (int i = 0; i < kFixed; ++i) {
      const bool goal = i >= kWalls;
      b2BodyDef def;
      b2Body* body = world_.CreateBody(&def);
      b2FixtureDef fixture;
      const b2PolygonShape shape = shape_of(fixed_shape(i));
      fixture.shape = &shape;
      fixture.density = 0.f;
      fixture.friction = 0.1f;
      fixture.filter.categoryBits = goal ? 0x10 : 0x11;
      fixture.filter.maskBits = goal ? 0x10 : 0x11;
      body->CreateFixture(&fixture);
      if (!goal) continue;
      fixture.isSensor = true;
      fixture.filter.maskBits = 0x01;
      goal_[i - kWalls] = body->CreateFixture(&fixture)->GetBody();
    }
    for (int i = 0; i < kBodies; ++i) {
      b2BodyDef def;
      def.type = b2_dynamicBody;
      def.position = {world.pose[i].origin.x, world.pose[i].origin.y};
      def.angle = world.body[i].angle;
      def.linearVelocity = {world.body[i].velocity.x, world.body[i].velocity.y};
      def.angularVelocity = world.body[i].spin;
      body_[i] = world_.CreateBody(&def);
      b2FixtureDef fixture;
      b2CircleShape circle;
      circle.m_radius = kPuckRadius;
      const b2PolygonShape polygon = shape_of(racket(i == kPlayerTwo));
      fixture.shape = i == kPuck ? static_cast<const b2Shape*>(&circle) : &polygon;
      fixture.density = i == kPuck ? kPuckDensity : kRacketDensity;
      fixture.friction = i == kPuck ? 0.1f : 1.f;
      fixture.restitution = i == kPuck ? 0.95f : 0.f;
      fixture.filter.categoryBits = i == kPuck ? 0x01 : 0x10;
      fixture.filter.maskBits = i == kPuck ? 0x10 : 0x11;
      body_[i]->CreateFixture(&fixture);
    }
    world_.SetContactListener(this);
  }
  Box2dRink(const Box2dRink&) = delete;
  Box2dRink& operator=(const Box2dRink&) = delete;

  const b2Body& body(int i) const { return *body_[i]; }

  /// Positions and velocities of all bodies into `world`.
  void read(World& world) const {
    for (int i = 0; i < kBodies; ++i) {
      const b2Body& b = *body_[i];
      world.body[i] = {{b.GetWorldCenter().x, b.GetWorldCenter().y},
                       b.GetAngle(),
                       {b.GetLinearVelocity().x, b.GetLinearVelocity().y},
                       b.GetAngularVelocity()};
      world.pose[i] = pose_of(i, world.body[i]);
    }
  }

  /// Takes velocities from `world`, and the puck's place when it was moved by hand; then steps.
  void step(const World& world, bool puck_moved, const Drive* drive, Begun& begun) {
    for (int i = 0; i < kBodies; ++i) {
      b2Body& b = *body_[i];
      b.SetLinearVelocity({world.body[i].velocity.x, world.body[i].velocity.y});
      b.SetLinearDamping(converted(drive[i].damping));
      b.SetAngularDamping(converted(drive[i].spin_damping));
      b.ApplyForceToCenter({drive[i].force.x, drive[i].force.y}, true);
      b.ApplyTorque(drive[i].torque, true);
    }
    const Vec puck = world.body[kPuck].centre;
    if (puck_moved) body_[kPuck]->SetTransform({puck.x, puck.y}, body_[kPuck]->GetAngle());
    begun_ = {};
    touching_.clear();
    world_.Step(kStep, kVelocityIterations, kPositionIterations);
    for (const b2Contact* c = world_.GetContactList(); c; c = c->GetNext())
      if (c->IsTouching()) note_touching(*c);
    begun = begun_;
  }

  /// What touched in the last step, as pairs of Contact's indices: a fixed shape is kBodies + i.
  const std::vector<std::pair<int, int>>& touching() const { return touching_; }

 private:
  static b2PolygonShape shape_of(const Polygon& p) {
    b2Vec2 points[kMaxVertices];
    for (int i = 0; i < p.count; ++i) points[i] = {p.vertex[i].x, p.vertex[i].y};
    b2PolygonShape shape;
    shape.Set(points, p.count);
    return shape;
  }
  static float converted(float damping) {
    const float keep = 1.f - kStep * damping;
    return (1.f / keep - 1.f) / kStep;
  }
  int index_of(const b2Body* b) const {
    for (int i = 0; i < kBodies; ++i)
      if (body_[i] == b) return i;
    return kBodies;
  }
  void note_touching(const b2Contact& c) {
    const int a = index_of(c.GetFixtureA()->GetBody()), b = index_of(c.GetFixtureB()->GetBody());
    touching_.emplace_back(std::min(a, b), std::max(a, b));
  }
  void BeginContact(b2Contact* contact) override {
    note_touching(*contact);
    const b2Body* a = contact->GetFixtureA()->GetBody();
    const b2Body* b = contact->GetFixtureB()->GetBody();
    for (int p = 0; p < 2; ++p) {
      auto is = [&](const b2Body* other) {
        return (a == other && b == body_[kPuck]) || (b == other && a == body_[kPuck]);
      };
      begun_.puck_at[p] |= is(body_[p]);
      begun_.in_goal[p] |= is(goal_[p]);
    }
  }

  b2World world_;
  b2Body* body_[kBodies];
  const b2Body* goal_[2];
  Begun begun_;
  std::vector<std::pair<int, int>> touching_;
};

}  // namespace maglev::rink
