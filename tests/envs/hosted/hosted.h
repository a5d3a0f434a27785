#pragma once
// Pendulum as a library of the host's would step it: for tests of what stands beside such steps.

#include <cstring>

#include "base/env/env.h"
#include "envs/pendulum/pendulum.h"

namespace maglev {

struct Hosted {
  static constexpr const char* kSummary = "pendulum that the host steps (for tests)";
  static constexpr bool kHostOnly = true;

  using Params = Pendulum::Params;
  struct State {
    Pendulum::State pendulum{};
  };

  static EnvSpec spec(const Params& p) { return Pendulum::spec(p); }
  static void reset(const Params& p, State& s, Rng& rng) { Pendulum::reset(p, s.pendulum, rng); }
  static void step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out) {
    Pendulum::step(p, s.pendulum, action, rng, out);
  }
  static void observe(const Params& p, const State& s, int agent, const ObsOut& out) {
    Pendulum::observe(p, s.pendulum, agent, out);
  }

  static size_t state_bytes(const Params&) { return sizeof(Pendulum::State); }
  static void save(const Params&, const State& s, std::byte* to) {
    std::memcpy(to, &s.pendulum, sizeof s.pendulum);
  }
  static bool load(const Params&, State& s, const std::byte* from) {
    std::memcpy(&s.pendulum, from, sizeof s.pendulum);
    return true;
  }
};

}  // namespace maglev
