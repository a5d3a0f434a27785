#pragma once
// Pendulum swing-up with the constants, integrator and reward of Gymnasium's Pendulum-v1. One
// torque in [-2, 2] N m; observation: cos and sin of the angle from upright, angular velocity
// rad/s. Never terminates.

#include <cmath>

#include "base/env/env.h"
#include "envs/pendulum/paint.h"

namespace maglev {

struct Pendulum {
  static constexpr const char* kSummary = "swing a pendulum up and hold it (Gymnasium Pendulum-v1)";
  static constexpr float kMaxTorque = 2.f, kMaxSpeed = 8.f;

  struct Params {
    int32_t max_steps = 200;
    float g = 10.f;

    static void describe(OptionTable& t, Params& p) {
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
      t.add("g", p.g, "acceleration of gravity", {.min = 0, .max = 1000, .unit = "m/s^2"});
    }
  };

  struct State {
    float theta, theta_dot;  ///< theta is kept in [-pi, pi], so long episodes lose no precision
    int32_t steps;
  };

  static EnvSpec spec(const Params& p) {
    return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {3}}},
            .action = {.low = {-kMaxTorque}, .high = {kMaxTorque}},
            .max_steps = p.max_steps};
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    constexpr float pi = 3.14159265358979f;
    s.theta = rng.uniform(-pi, pi);
    s.theta_dot = rng.uniform(-1.f, 1.f);
    s.steps = 0;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng&, StepOut& out) {
    constexpr float mass = 1.f, length = 1.f, dt = 0.05f;
    // comparisons, not fminf: a NaN action stays a NaN and is reported, instead of becoming a
    // torque
    float torque = action.continuous[0];
    torque = torque < -kMaxTorque ? -kMaxTorque : torque > kMaxTorque ? kMaxTorque : torque;
    const float theta = wrap(s.theta);
    out.reward[0] = -(theta * theta + 0.1f * s.theta_dot * s.theta_dot + 0.001f * torque * torque);

    const float acceleration =
        3.f * p.g / (2.f * length) * sinf(theta) + 3.f / (mass * length * length) * torque;
    const float speed = s.theta_dot + acceleration * dt;
    s.theta_dot = speed < -kMaxSpeed ? -kMaxSpeed : speed > kMaxSpeed ? kMaxSpeed : speed;
    s.theta = wrap(theta + s.theta_dot * dt);
    s.steps += 1;
    out.truncated = s.steps >= p.max_steps;
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    float* o = out.as<float>(0);
    o[0] = cosf(s.theta), o[1] = sinf(s.theta), o[2] = s.theta_dot;
  }

  static void paint(const Params&, const State& s, Canvas& canvas) {
    pendulum::paint(s.theta, s.theta_dot, kMaxSpeed, canvas);
  }

  /// The same angle within [-pi, pi].
  MAGLEV_HD static float wrap(float angle) {
    constexpr float pi = 3.14159265358979f, turn = 6.28318530717959f;
    if (angle >= -pi && angle <= pi) return angle;
    return angle - turn * floorf((angle + pi) / turn);
  }
};

}  // namespace maglev
