#pragma once
// Mountain car (Moore, 1990) with the constants of Gymnasium's MountainCar-v0: an engine too weak
// for the hill must first back away from it. Actions: 0 push left, 1 coast, 2 push right.
// Observation: position, velocity.

#include <cmath>

#include "base/env/env.h"
#include "envs/mountain_car/paint.h"

namespace maglev {

struct MountainCar {
  static constexpr const char* kSummary =
      "drive an underpowered car up a hill (Gymnasium MountainCar-v0)";
  static constexpr float kLeftWall = -1.2f, kRightWall = 0.6f, kGoal = 0.5f;

  struct Params {
    int32_t max_steps = 200;
    float goal_velocity = 0.f;

    static void describe(OptionTable& t, Params& p) {
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
      t.add("goal_velocity", p.goal_velocity,
            "least velocity at the goal that counts as reaching it", {.min = -0.07, .max = 0.07});
    }
  };

  struct State {
    float position, velocity;
    int32_t steps;
  };

  static EnvSpec spec(const Params& p) {
    return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {2}}},
            .action = {.heads = {3}, .names = {"push left", "coast", "push right"}},
            .max_steps = p.max_steps,
            .solved_at = -110};
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    s.position = rng.uniform(-0.6f, -0.4f);
    s.velocity = 0.f;
    s.steps = 0;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng&, StepOut& out) {
    constexpr float force = 0.001f, gravity = 0.0025f, max_speed = 0.07f;
    const float velocity =
        s.velocity + (float(action.discrete[0] - 1) * force - cosf(3.f * s.position) * gravity);
    s.velocity = velocity < -max_speed ? -max_speed : velocity > max_speed ? max_speed : velocity;
    const float position = s.position + s.velocity;
    s.position = position < kLeftWall ? kLeftWall : position > kRightWall ? kRightWall : position;
    // the left wall is inelastic
    if (s.position == kLeftWall && s.velocity < 0.f) s.velocity = 0.f;
    s.steps += 1;
    out.reward[0] = -1.f;
    out.terminated = s.position >= kGoal && s.velocity >= p.goal_velocity;
    out.truncated = s.steps >= p.max_steps;
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    float* o = out.as<float>(0);
    o[0] = s.position, o[1] = s.velocity;
  }

  static void paint(const Params&, const State& s, Canvas& canvas) {
    mountain_car::paint(s.position, kLeftWall, kRightWall, kGoal, canvas);
  }
};

}  // namespace maglev
