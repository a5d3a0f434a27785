#pragma once
// Pendulum whose steps begin before they are waited for, as those of processes do: for tests of what
// stands beside such steps. What was begun is what is stepped.

#include "base/core/error.h"
#include "tests/envs/hosted/hosted.h"

namespace maglev {

struct Ahead : Hosted {
  static constexpr const char* kSummary = "pendulum whose steps begin ahead (for tests)";
  static constexpr bool kHostOnly = true;

  struct State : Hosted::State {
    enum class Begun { nothing, reset, step } begun = Begun::nothing;
    float torque = 0;  ///< of the step that has begun
  };

  static void begin_reset(const Params&, State& s, Rng&) { begin(s, State::Begun::reset); }
  static void begin_step(const Params&, State& s, const Actions& action) {
    if (begin(s, State::Begun::step)) s.torque = action.continuous[0];
  }
  static void send_begun(const Params&, State&) {}

  static void reset(const Params& p, State& s, Rng& rng) {
    take(s, State::Begun::reset);
    Hosted::reset(p, s, rng);
  }
  static void step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out) {
    take(s, State::Begun::step);
    MAGLEV_ASSERT(action.continuous[0] == s.torque, "the action it began with is there to the end");
    Hosted::step(p, s, action, rng, out);
  }

 private:
  // whether it begins now: what has begun is not begun again
  static bool begin(State& s, State::Begun what) {
    if (s.begun != State::Begun::nothing) return false;
    s.begun = what;
    return true;
  }
  static void take(State& s, State::Begun what) {
    MAGLEV_ASSERT(s.begun == what, "a step begins before it is taken");
    s.begun = State::Begun::nothing;
  }
};

}  // namespace maglev
