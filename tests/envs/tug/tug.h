#pragma once
// Tug of war, for tests of opponents: the rope moves by the difference of two pulls; who has it by
// 1 wins. Scripted players pull with a fixed strength.

#include <cstring>

#include "base/env/env.h"

namespace maglev {

struct Tug {
  static constexpr const char* kSummary = "tug of war for two";
  static constexpr int kAgents = 2;

  struct Params {
    int64_t max_steps = 20;
    static void describe(OptionTable& table, Params& p) {
      table.add("max_steps", p.max_steps, "steps until a draw", {.min = 1, .max = 1e6});
    }
  };
  struct State {
    float rope;
    int32_t steps;
  };

  static EnvSpec spec(const Params& p) {
    return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {2}}},
            .action = {.low = {-1}, .high = {1}},
            .max_steps = p.max_steps};
  }

  /// Pulls with strength `kTenths` tenths, after a random first pull.
  template <int kTenths>
  static Bot bot(const char* name) {
    return {.name = name,
            .summary = "pulls with a fixed strength",
            .state_bytes = sizeof(float),
            .begin = [](void* state,
                        Rng& rng) { *static_cast<float*>(state) = rng.uniform(0.f, 0.05f); },
            .act =
                [](const BotTurn& turn) {
                  turn.continuous[0] = float(kTenths) / 10 + *static_cast<float*>(turn.state);
                }};
  }
  static std::span<const Bot> bots() {
    static const Bot table[] = {bot<0>("idle"), bot<9>("heavy")};
    return table;
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    s = {.rope = rng.uniform(-0.05f, 0.05f), .steps = 0};
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& actions, Rng&,
                             StepOut& out) {
    const auto pull = [&](int agent) {
      const float a = actions.continuous[agent];
      return a < -1.f ? -1.f : a > 1.f ? 1.f : a;
    };
    s.rope += 0.2f * (pull(0) - pull(1));
    s.steps += 1;
    out.terminated = s.rope >= 1.f || s.rope <= -1.f;
    out.truncated = !out.terminated && s.steps >= p.max_steps;
    out.reward[0] = out.terminated ? (s.rope > 0 ? 1.f : -1.f) : 0.f;
    out.reward[1] = -out.reward[0];
  }

  MAGLEV_HD static void observe(const Params& p, const State& s, int agent, const ObsOut& obs) {
    float* row = obs.as<float>(0);
    row[0] = agent == 0 ? s.rope : -s.rope;
    row[1] = float(s.steps) / float(p.max_steps);
  }
};

}  // namespace maglev
