#pragma once
// A point that is pushed to the origin, in one or two dimensions: for tests of several tasks, of
// images and of episodes that terminate.

#include <cmath>

#include "base/core/error.h"
#include "base/env/env.h"

namespace maglev {

struct Points {
  static constexpr const char* kSummary = "push a point to the origin (for tests)";
  static constexpr int kSide = 64, kHalfSquare = 3;
  static constexpr int64_t kPlaneSteps = 60, kLineSteps = 40;

  struct Params {
    bool tasks = false;
    bool image = false;
    bool terminate = false;

    static void describe(OptionTable& t, Params& p) {
      t.add("tasks", p.tasks, "episodes are of two tasks, in the plane and on a line");
      t.add("image", p.image, "show a picture instead of numbers");
      t.add("terminate", p.terminate, "an episode ends within 0.1 of the origin");
    }
    static void check(const Params& p) {
      if (p.tasks && p.image)
        throw Error("[env] env.tasks and env.image exclude each other here; leave one of them out");
    }
  };

  struct State {
    float place[2], speed[2];
    int32_t line;  ///< 1: on a line, the second dimension stays 0
    int32_t steps;
  };

  static EnvSpec spec(const Params& p) {
    EnvSpec spec{.observations = {{.name = "vector", .dtype = DType::f32, .shape = {4}}},
                 .action = {.low = {-1, -1}, .high = {1, 1}},
                 .max_steps = kPlaneSteps};
    if (p.image)
      spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {kSide, kSide, 1}}};
    if (p.tasks) {
      spec.observations.push_back({.name = "task", .dtype = DType::i32, .shape = {1}});
      spec.tasks = {{.name = "plane", .obs_dims = 4, .action_dims = 2, .max_steps = kPlaneSteps},
                    {.name = "line", .obs_dims = 2, .action_dims = 1, .max_steps = kLineSteps}};
    }
    return spec;
  }

  static bool valid(const Params&, const State& s) { return s.line == 0 || s.line == 1; }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) {
    s = State{};
    s.line = p.tasks ? int32_t(rng.below(2)) : 0;
    for (int d = 0; d < 2 - s.line; ++d) s.place[d] = rng.uniform(-1.f, 1.f);
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng&, StepOut& out) {
    float squares = 0;
    for (int d = 0; d < 2 - s.line; ++d) {
      // comparisons, not fminf: a NaN action stays a NaN and is reported
      float push = action.continuous[d];
      push = push < -1.f ? -1.f : push > 1.f ? 1.f : push;
      s.speed[d] = 0.8f * s.speed[d] + 0.05f * push;
      s.place[d] += s.speed[d];
      squares += s.place[d] * s.place[d];
    }
    s.steps += 1;
    out.reward[0] = -sqrtf(squares);
    out.terminated = p.terminate && squares < 0.01f;
    out.truncated = s.steps >= (s.line ? kLineSteps : kPlaneSteps);
  }

  MAGLEV_HD static void observe(const Params& p, const State& s, int, const ObsOut& out) {
    if (p.image) draw(s, out.as<uint8_t>(0));
    else {
      float* o = out.as<float>(0);
      const int dims = 2 - s.line;
      for (int i = 0; i < 4; ++i) o[i] = 0.f;
      for (int d = 0; d < dims; ++d) o[d] = s.place[d], o[dims + d] = s.speed[d];
    }
    if (p.tasks) out.as<int32_t>(1)[0] = s.line;
  }

  /// A white square where the point is, within 1.5 of the origin.
  MAGLEV_HD static void draw(const State& s, uint8_t* pixels) {
    for (int i = 0; i < kSide * kSide; ++i) pixels[i] = 0;
    const int row = int(s.place[1] * 20.f) + kSide / 2, column = int(s.place[0] * 20.f) + kSide / 2;
    for (int r = row - kHalfSquare; r <= row + kHalfSquare; ++r)
      for (int c = column - kHalfSquare; c <= column + kHalfSquare; ++c)
        if (r >= 0 && r < kSide && c >= 0 && c < kSide) pixels[r * kSide + c] = 255;
  }
};

}  // namespace maglev
