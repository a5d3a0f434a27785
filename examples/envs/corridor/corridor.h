#pragma once
// A complete environment to learn from and to copy: an agent walks a corridor from its left end to
// the goal at its right end. This one file is all there is: the folder's name in PascalCase is the
// struct's name, and the build finds it. It then runs on CPU threads and, where CUDA is built, as a
// kernel; the settings below become `env.length=20` on the command line, and every test that walks
// the environment table covers it.

#include "base/env/env.h"
#include "base/picture/canvas.h"

namespace maglev {

struct Corridor {
  // one line for `maglev envs`
  static constexpr const char* kSummary = "walk to the right end of a corridor (an example)";

  // Settings: plain numbers with defaults, constant during a run. describe() names each, its range
  // and its help.
  struct Params {
    int32_t length = 8;
    int32_t max_steps = 64;
    float slip = 0.1f;

    static void describe(OptionTable& t, Params& p) {
      t.add("length", p.length, "cells from end to end", {.min = 2, .max = 1e6, .unit = "cells"});
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e9, .unit = "steps"});
      t.add("slip", p.slip, "chance that a step does not move", {.min = 0, .max = 0.99});
    }
  };

  // All an episode needs, in plain values: a checkpoint copies it byte by byte, and so does the
  // GPU.
  struct State {
    int32_t position;  ///< 0 .. length - 1
    int32_t steps;
  };

  // Whether an episode could have led to a state: asked of one that was read from a file, so that
  // what step and observe index with can be trusted. A zeroed state is one.
  static bool valid(const Params& p, const State& s) {
    return s.position >= 0 && s.position < p.length;
  }

  // What is seen and done with these settings. Runs on the host only, once.
  static EnvSpec spec(const Params& p) {
    return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {1}}},
            .action = {.heads = {2}, .masked = true, .names = {"left", "right"}},  // one of two
            .max_steps = p.max_steps,
            .events = {"slips"}};
  }

  // A new episode. Random numbers come from `rng` and nowhere else: that keeps runs repeatable on
  // any machine.
  MAGLEV_HD static void reset(const Params&, State& s, Rng&) {
    s.position = 0;
    s.steps = 0;
  }

  // One step. The runner has cleared `out`, and begins the next episode by itself after terminated
  // or truncated.
  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    if (rng.uniform() < p.slip) {
      out.count(0, 1.f);
    } else {
      const int32_t next = s.position + (action.discrete[0] == 1 ? 1 : -1);
      s.position = next < 0 ? 0 : next;
    }
    s.steps += 1;
    // terminated: the task is over and the future is worth nothing; truncated: time ran out, the
    // future still counts
    out.terminated = s.position == p.length - 1;
    out.truncated = s.steps >= p.max_steps;
    out.reward[0] = out.terminated ? 1.f : -0.01f;
  }

  // What the agent sees of a state, and which actions it has: no way left through the wall at the
  // left end.
  MAGLEV_HD static void observe(const Params& p, const State& s, int /*agent*/, const ObsOut& out) {
    out.as<float>(0)[0] = float(s.position) / float(p.length - 1);
    out.mask[0] = s.position > 0;
    out.mask[1] = 1;
  }

  // Optional: what `maglev play` shows and records. Draws the whole canvas, whatever its size; host
  // only.
  static void paint(const Params& p, const State& s, Canvas& canvas) {
    const View view(canvas.width(), canvas.height(), 0.5f * float(p.length - 1), 0.f,
                    float(p.length), 2.f);
    canvas.fill({247, 249, 251});
    for (int32_t cell = 0; cell < p.length; ++cell)
      canvas.rectangle(view(float(cell) - 0.45f, 0.45f), view(float(cell) + 0.45f, -0.45f),
                       cell == p.length - 1 ? Rgb{150, 200, 140} : Rgb{226, 232, 238});
    canvas.disc(view(float(s.position), 0.f), 0.3f * view.scale, {192, 72, 64});
  }
};

}  // namespace maglev
