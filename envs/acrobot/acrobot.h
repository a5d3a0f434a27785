#pragma once
// Acrobot (Sutton, 1996): two links hang from a pivot and only the joint between them is driven;
// swing the tip above one link's length over the pivot. Constants, fourth-order Runge-Kutta step
// and both published forms of the dynamics as in Gymnasium's Acrobot-v1 (default: the book's,
// Sutton and Barto, 2018). Actions: torque -1, 0, +1 N m. Observation: cos, sin of angle 1; cos,
// sin of angle 2; both velocities rad/s.

#include <cmath>

#include "base/env/env.h"
#include "envs/acrobot/paint.h"

namespace maglev {

struct Acrobot {
  static constexpr const char* kSummary = "swing a two-link arm up (Gymnasium Acrobot-v1)";
  enum class Dynamics : int32_t { book, paper };
  friend constexpr auto names_of(Dynamics) { return std::array{"book", "paper"}; }

  struct Params {
    int32_t max_steps = 500;
    Dynamics dynamics = Dynamics::book;
    float dt = 0.2f;
    float torque_noise = 0.f;

    static void describe(OptionTable& t, Params& p) {
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
      t.add("dynamics", p.dynamics, "equations of the book or of the paper");
      t.add("dt", p.dt, "time of one step", {.min = 1e-4, .max = 1, .unit = "s"});
      t.add("torque_noise", p.torque_noise, "half-width of uniform noise on the torque",
            {.min = 0, .max = 100, .unit = "N m"});
    }
  };

  struct State {
    float theta1,
        theta2;  ///< link 1 from hanging down, link 2 relative to link 1; both within [-pi, pi]
    float dtheta1, dtheta2;
    int32_t steps;
  };

  static EnvSpec spec(const Params& p) {
    return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {6}}},
            .action = {.heads = {3}, .names = {"torque -1", "no torque", "torque +1"}},
            .max_steps = p.max_steps,
            .solved_at = -100};
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    s.theta1 = rng.uniform(-0.1f, 0.1f);
    s.theta2 = rng.uniform(-0.1f, 0.1f);
    s.dtheta1 = rng.uniform(-0.1f, 0.1f);
    s.dtheta2 = rng.uniform(-0.1f, 0.1f);
    s.steps = 0;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    constexpr float pi = 3.14159265358979f, max_dtheta1 = 4 * pi, max_dtheta2 = 9 * pi;
    float torque = float(action.discrete[0] - 1);
    if (p.torque_noise > 0.f) torque += rng.uniform(-p.torque_noise, p.torque_noise);

    const Motion now{s.theta1, s.theta2, s.dtheta1, s.dtheta2};
    const Motion k1 = derivative(p, now, torque);
    const Motion k2 = derivative(p, along(now, k1, p.dt / 2), torque);
    const Motion k3 = derivative(p, along(now, k2, p.dt / 2), torque);
    const Motion k4 = derivative(p, along(now, k3, p.dt), torque);
    const float sixth = p.dt / 6.f;
    s.theta1 =
        wrap(now.theta1 + sixth * (k1.theta1 + 2.f * k2.theta1 + 2.f * k3.theta1 + k4.theta1));
    s.theta2 =
        wrap(now.theta2 + sixth * (k1.theta2 + 2.f * k2.theta2 + 2.f * k3.theta2 + k4.theta2));
    s.dtheta1 =
        clip(now.dtheta1 + sixth * (k1.dtheta1 + 2.f * k2.dtheta1 + 2.f * k3.dtheta1 + k4.dtheta1),
             max_dtheta1);
    s.dtheta2 =
        clip(now.dtheta2 + sixth * (k1.dtheta2 + 2.f * k2.dtheta2 + 2.f * k3.dtheta2 + k4.dtheta2),
             max_dtheta2);
    s.steps += 1;
    out.terminated = -cosf(s.theta1) - cosf(s.theta2 + s.theta1) > 1.f;
    out.truncated = s.steps >= p.max_steps;
    out.reward[0] = out.terminated ? 0.f : -1.f;
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    float* o = out.as<float>(0);
    o[0] = cosf(s.theta1), o[1] = sinf(s.theta1), o[2] = cosf(s.theta2), o[3] = sinf(s.theta2);
    o[4] = s.dtheta1, o[5] = s.dtheta2;
  }

  static void paint(const Params&, const State& s, Canvas& canvas) {
    acrobot::paint(s.theta1, s.theta2, canvas);
  }

 private:
  struct Motion {
    float theta1, theta2, dtheta1, dtheta2;
  };

  MAGLEV_HD static Motion along(const Motion& m, const Motion& slope, float t) {
    return {m.theta1 + t * slope.theta1, m.theta2 + t * slope.theta2, m.dtheta1 + t * slope.dtheta1,
            m.dtheta2 + t * slope.dtheta2};
  }

  // unit masses, lengths and moments of inertia, centres of mass half-way; cos(a - pi/2) is written
  // as sin(a)
  MAGLEV_HD static Motion derivative(const Params& p, const Motion& m, float torque) {
    constexpr float g = 9.8f;
    const float cos2 = cosf(m.theta2), sin2 = sinf(m.theta2);
    const float d1 = 3.5f + cos2, d2 = 1.25f + 0.5f * cos2;
    const float phi2 = 0.5f * g * sinf(m.theta1 + m.theta2);
    const float phi1 = -0.5f * m.dtheta2 * m.dtheta2 * sin2 - m.dtheta2 * m.dtheta1 * sin2 +
                       1.5f * g * sinf(m.theta1) + phi2;
    float force = torque + d2 / d1 * phi1 - phi2;
    if (p.dynamics == Dynamics::book) force -= 0.5f * m.dtheta1 * m.dtheta1 * sin2;
    const float ddtheta2 = force / (1.25f - d2 * d2 / d1);
    const float ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
    return {m.dtheta1, m.dtheta2, ddtheta1, ddtheta2};
  }

  MAGLEV_HD static float wrap(float angle) {
    constexpr float pi = 3.14159265358979f, turn = 6.28318530717959f;
    if (angle >= -pi && angle <= pi) return angle;
    return angle - turn * floorf((angle + pi) / turn);
  }

  MAGLEV_HD static float clip(float x, float limit) {
    return x < -limit ? -limit : x > limit ? limit : x;
  }
};

}  // namespace maglev
