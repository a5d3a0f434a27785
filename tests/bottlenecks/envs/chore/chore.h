#pragma once
// CartPole with a chore in each step, which is what people's environments do and should not: for
// tests/python/test_bottlenecks.py and bench/bottlenecks.py.

#include <cstring>

#include "base/env/env.h"
#include "envs/cartpole/cartpole.h"

namespace maglev {

struct Chore {
  static constexpr const char* kSummary = "cartpole with a chore in each step (for tests)";
  static constexpr bool kHostOnly = true;

  enum class Kind : int32_t { none, computes, waits, locks, allocates, uneven };
  friend constexpr auto names_of(Kind) {
    return std::array{"none", "computes", "waits", "locks", "allocates", "uneven"};
  }

  struct Params {
    Kind chore = Kind::none;
    int32_t cost_us = 100;

    static void describe(OptionTable& t, Params& p) {
      t.add("chore", p.chore,
            "computes; waits for an answer; locks: waits for one under a lock that all share; "
            "allocates: takes and gives back memory; uneven: one environment of eight computes");
      t.add("cost_us", p.cost_us, "what it takes; of allocates: pages",
            {.min = 0, .max = 1e6, .unit = "us"});
    }
  };

  struct State {
    State();
    Cartpole::State pole{};
    int32_t number = 0;  ///< of those made so far
  };

  static EnvSpec spec(const Params&) { return Cartpole::spec({}); }
  static void reset(const Params&, State& s, Rng& rng) { Cartpole::reset({}, s.pole, rng); }
  static void step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out);
  static void observe(const Params&, const State& s, int agent, const ObsOut& out) {
    Cartpole::observe({}, s.pole, agent, out);
  }

  static size_t state_bytes(const Params&) { return sizeof(Cartpole::State); }
  static void save(const Params&, const State& s, std::byte* to) {
    std::memcpy(to, &s.pole, sizeof s.pole);
  }
  static bool load(const Params&, State& s, const std::byte* from) {
    std::memcpy(&s.pole, from, sizeof s.pole);
    return true;
  }
};

}  // namespace maglev
