#pragma once
// An environment that gives a number that is not finite at a chosen step: for tests of the guard.

#include <limits>

#include "base/env/env.h"

namespace maglev {

struct Faulty {
  static constexpr const char* kSummary = "gives NaN at a chosen step (for tests)";

  enum class Where : int32_t { reward, observation };
  friend constexpr auto names_of(Where) { return std::array{"reward", "observation"}; }

  struct Params {
    Where where = Where::reward;
    int32_t step = 100;

    static void describe(OptionTable& t, Params& p) {
      t.add("where", p.where, "what becomes NaN");
      t.add("step", p.step, "the step that does", {.min = 1, .max = 1e9});
    }
  };

  struct State {
    int32_t steps;
  };

  static EnvSpec spec(const Params&) {
    return {.observations = {{.name = "vector", .dtype = DType::f32, .shape = {1}}},
            .action = {.heads = {2}}};
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng&) { s.steps = 0; }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions&, Rng&, StepOut& out) {
    s.steps += 1;
    out.reward[0] =
        p.where == Where::reward && bad(p, s) ? std::numeric_limits<float>::quiet_NaN() : 1.f;
    out.truncated = s.steps >= (1 << 30);
  }

  MAGLEV_HD static void observe(const Params& p, const State& s, int, const ObsOut& out) {
    out.as<float>(0)[0] =
        p.where == Where::observation && bad(p, s) ? std::numeric_limits<float>::infinity() : 0.f;
  }

  MAGLEV_HD static bool bad(const Params& p, const State& s) { return s.steps == p.step; }
};

}  // namespace maglev
