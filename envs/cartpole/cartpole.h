#pragma once
// Cart-pole balancing (Barto, Sutton and Anderson, 1983) with the constants and the Euler
// integrator of Gymnasium's CartPole-v1. Observation: position m, velocity m/s, pole angle rad from
// upright, its velocity rad/s; without velocities what it takes to balance has to be remembered.

#include <cmath>

#include "base/env/env.h"
#include "envs/cartpole/paint.h"

namespace maglev {

struct Cartpole {
  static constexpr const char* kSummary = "balance a pole on a cart (Gymnasium CartPole-v1)";
  /// Where an episode fails: metres from the middle, radians from upright.
  static constexpr float kLimitX = 2.4f, kLimitTheta = 12 * 2 * 3.14159265358979f / 360;

  struct Params {
    int32_t max_steps = 500;
    bool sutton_barto_reward = false;
    bool velocities = true;

    static void describe(OptionTable& t, Params& p) {
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
      t.add("sutton_barto_reward", p.sutton_barto_reward,
            "reward 0 a step and -1 for the fall, not 1 a step");
      t.add("velocities", p.velocities,
            "whether both velocities are shown; without them a policy has to remember");
    }
  };

  struct State {
    float x, x_dot, theta, theta_dot;
    int32_t steps;
  };

  static EnvSpec spec(const Params& p) {
    return {
        .observations = {{.name = "vector", .dtype = DType::f32, .shape = {p.velocities ? 4 : 2}}},
        .action = {.heads = {2}, .names = {"push left", "push right"}},
        .max_steps = p.max_steps,
        .solved_at = p.sutton_barto_reward ? 0. : 475.};
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    s.x = rng.uniform(-0.05f, 0.05f);
    s.x_dot = rng.uniform(-0.05f, 0.05f);
    s.theta = rng.uniform(-0.05f, 0.05f);
    s.theta_dot = rng.uniform(-0.05f, 0.05f);
    s.steps = 0;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng&, StepOut& out) {
    constexpr float gravity = 9.8f, mass_pole = 0.1f, total_mass = 1.1f, half_length = 0.5f;
    constexpr float pole_share = mass_pole / total_mass, tau = 0.02f;
    // no branch on what a policy draws: every second guess of the processor would be wrong
    const float push = float(2 * int32_t(action.discrete[0] == 1) - 1) * (10.f / total_mass);
    // Taylor's series; an episode ends beyond 0.21 rad, and they hold to the last places up to
    // pi/4. Cheaper than the library's, and the same bits on every machine and device.
    const float t2 = s.theta * s.theta, t4 = t2 * t2;
    const float sin_theta =
        s.theta +
        s.theta * t2 * ((-1.f / 6 + t2 * (1.f / 120)) + t4 * (-1.f / 5040 + t2 * (1.f / 362880)));
    const float cos_theta =
        (1.f - 0.5f * t2) + t4 * ((1.f / 24 - t2 * (1.f / 720)) + t4 * (1.f / 40320));
    const float temp = push + pole_share * half_length * (s.theta_dot * s.theta_dot) * sin_theta;
    const float theta_acc =
        (gravity * sin_theta - cos_theta * temp) /
        (half_length * 4.f / 3.f - half_length * pole_share * (cos_theta * cos_theta));
    const float x_acc = temp - pole_share * half_length * (theta_acc * cos_theta);
    s.x += tau * s.x_dot;
    s.x_dot += tau * x_acc;
    s.theta += tau * s.theta_dot;
    s.theta_dot += tau * theta_acc;
    s.steps += 1;
    out.terminated = (fabsf(s.x) > kLimitX) | (fabsf(s.theta) > kLimitTheta);
    out.truncated = s.steps >= p.max_steps;
    // the step that falls is rewarded like any other, unless the reward is Sutton and Barto's
    out.reward[0] = !p.sutton_barto_reward ? 1.f : out.terminated ? -1.f : 0.f;
  }

  MAGLEV_HD static void observe(const Params& p, const State& s, int, const ObsOut& out) {
    float* o = out.as<float>(0);
    if (p.velocities) o[0] = s.x, o[1] = s.x_dot, o[2] = s.theta, o[3] = s.theta_dot;
    else o[0] = s.x, o[1] = s.theta;
  }

  static void paint(const Params&, const State& s, Canvas& canvas) {
    cartpole::paint(s.x, s.theta, kLimitX, kLimitTheta, canvas);
  }
};

}  // namespace maglev
