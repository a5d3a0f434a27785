#pragma once
// Walkers leave by a door, each when it gets there, and some come late: for tests of agents that
// end apart. Scripted players walk or stand.

#include "base/core/error.h"
#include "base/env/env.h"

namespace maglev {

struct Door {
  static constexpr const char* kSummary = "walkers leave by a door one by one (for tests)";
  static constexpr bool kAgentsBySettings = true;
  static constexpr int kMostWalkers = 8, kFar = 4;

  struct Params {
    int32_t walkers = 3;
    int32_t late = 2;
    int64_t max_steps = 12;
    bool race = false;
    bool pushes = false;
    float shout = 0;

    static void describe(OptionTable& t, Params& p) {
      t.add("walkers", p.walkers, "agents", {.min = 1, .max = kMostWalkers});
      t.add("late", p.late, "steps by which each comes later than the one before it",
            {.min = 0, .max = 100, .unit = "steps"});
      t.add("max_steps", p.max_steps, "steps until those who have not left are cut",
            {.min = 1, .max = 1e6});
      t.add("race", p.race, "the first one who leaves has 1, others 0; else all who leave have 1");
      t.add("pushes", p.pushes, "an action is a number, which walks where it is above 0");
      t.add("shout", p.shout, "what the numbers of one who waits are", {.min = -1e6, .max = 1e6});
    }
  };

  struct State {
    int32_t steps;
    int32_t left;                 ///< walkers who have
    int32_t place[kMostWalkers];  ///< steps to the door
    uint8_t gone[kMostWalkers];   ///< left, or cut
    uint8_t was[kMostWalkers];    ///< what the last step was to each, of Was
  };
  enum Was : uint8_t { kLeft = 1, kCut = 2, kWaited = 4 };

  static EnvSpec spec(const Params& p) {
    EnvSpec spec{.observations = {{.name = "vector", .dtype = DType::f32, .shape = {3}}},
                 .action = {.heads = {2}},
                 .max_steps = p.max_steps,
                 .events = {"left"},
                 .agents = p.walkers};
    if (p.pushes) spec.action = {.low = {-1}, .high = {1}};
    return spec;
  }

  static bool valid(const Params&, const State& s) { return s.steps >= 0; }

  template <bool kWalks>
  static Bot bot(const char* name) {
    return {.name = name,
            .summary = "does the same in each step",
            .state_bytes = 0,
            .begin = nullptr,
            .act = [](const BotTurn& turn) {
              if (turn.discrete) turn.discrete[0] = kWalks;
              else turn.continuous[0] = kWalks ? 1.f : -1.f;
            }};
  }
  static std::span<const Bot> bots() {
    static const Bot table[] = {bot<true>("walker"), bot<false>("stander")};
    return table;
  }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) {
    s = State{};
    for (int a = 0; a < p.walkers; ++a) s.place[a] = 1 + int32_t(rng.below(kFar));
  }

  /// Whether a walker is there, and has not gone.
  MAGLEV_HD static bool plays(const Params& p, const State& s, int agent) {
    return !s.gone[agent] && s.steps >= agent * p.late;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& actions, Rng&,
                             StepOut& out) {
    bool played[kMostWalkers];
    for (int a = 0; a < p.walkers; ++a) played[a] = plays(p, s, a);
    s.steps += 1;
    out.truncated = s.steps >= p.max_steps;
    bool anybody = false;
    for (int a = 0; a < p.walkers; ++a) {
      s.was[a] = played[a] ? 0 : kWaited;
      if (played[a]) {
        s.place[a] -= p.pushes ? actions.continuous[a] > 0.f : actions.discrete[a] == 1;
        if (s.place[a] <= 0) {
          out.reward[a] = p.race && s.left > 0 ? 0.f : 1.f;
          out.count(0, 1);
          s.was[a] = kLeft, s.left += 1;
        } else if (out.truncated) {
          s.was[a] = kCut;
        }
        s.gone[a] = s.was[a] != 0;
      }
      anybody |= plays(p, s, a);
    }
    out.terminated = !anybody && !out.truncated;
  }

  MAGLEV_HD static AgentEnd end_of(const Params&, const State& s, int agent) {
    const uint8_t was = s.was[agent];
    return {(was & kLeft) != 0, (was & kCut) != 0, (was & kWaited) != 0};
  }

  MAGLEV_HD static void observe(const Params& p, const State& s, int agent, const ObsOut& out) {
    float* o = out.as<float>(0);
    o[0] = float(s.place[agent]) / kFar;
    o[1] = float(s.steps) / float(p.max_steps);
    o[2] = float(s.left) / float(p.walkers);
    // one who has gone shows its last observation once, one who comes its first
    const bool shows = plays(p, s, agent) || (s.gone[agent] && !(s.was[agent] & kWaited));
    if (!shows)
      for (int i = 0; i < 3; ++i) o[i] = p.shout;
  }
};

}  // namespace maglev
