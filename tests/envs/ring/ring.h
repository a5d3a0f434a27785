#pragma once
// A little game of goals and successors, for tests of networks that take them: path(x,y) on a ring
// of eight places is proved by going from x to y. Places have two to four ways on; behind an odd
// one a toll comes first.

#include "base/env/env.h"

namespace maglev {

struct Ring {
  static constexpr const char* kSummary = "find a way around a ring, goal by goal (for tests)";
  static constexpr int kAtoms = 3, kSuccessors = 6, kPlaces = 8;
  enum Predicate { kPath = 1, kToll, kTrue, kEnd, kPredicates };

  struct Params {
    int64_t max_steps = 10;
    static void describe(OptionTable& t, Params& p) {
      t.add("max_steps", p.max_steps, "steps until an episode is cut", {.min = 1, .max = 1e6});
    }
  };
  /// A goal: path(place, target), behind toll(place) where it is owed. Places are 1 to 8.
  struct State {
    int32_t place, target, toll;
    int32_t over;  ///< the predicate of what the goal became at the end, or 0
    int32_t steps;
  };

  static EnvSpec spec(const Params& p) {
    const std::vector<int64_t> vocabulary{kPredicates, kPlaces + 1, kPlaces + 1};
    return {.observations = {{.name = "state",
                              .dtype = DType::i32,
                              .shape = {kAtoms, 3},
                              .vocabulary = vocabulary},
                             {.name = "successors",
                              .dtype = DType::i32,
                              .shape = {kSuccessors, kAtoms, 3},
                              .vocabulary = vocabulary}},
            .action = {.heads = {kSuccessors}, .masked = true},
            .max_steps = p.max_steps,
            .solved_at = 0.95};
  }

  static bool valid(const Params&, const State& s) {
    return s.place >= 1 && s.place <= kPlaces && s.target >= 1 && s.target <= kPlaces;
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    s = State{};
    s.place = 1 + int32_t(rng.below(kPlaces));
    s.target = 1 + (s.place + int32_t(rng.below(kPlaces - 1))) % kPlaces;
  }

  /// How many successors a goal has: ways on or the toll paid, and giving up.
  MAGLEV_HD static int count(const State& s) {
    return s.over ? 0 : 1 + (s.toll ? 1 : 2 + s.place % 3);
  }

  /// The goal's successor number i.
  MAGLEV_HD static State successor(const State& s, int i) {
    State next = s;
    if (i + 1 >= count(s)) {
      next.over = kEnd;
    } else if (s.toll) {
      next.toll = 0;
    } else {
      const int by = i % 2 == 0 ? 1 + i / 2 : -(1 + i / 2);
      next.place = 1 + (s.place - 1 + by + kPlaces) % kPlaces;
      next.toll = next.place % 2;
      if (next.place == s.target) next.over = kTrue;
    }
    return next;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& actions, Rng&,
                             StepOut& out) {
    const int32_t steps = s.steps + 1;
    s = successor(s, actions.discrete[0]);
    s.steps = steps;
    out.terminated = s.over != 0;
    out.truncated = !out.terminated && steps >= p.max_steps;
    out.reward[0] = s.over == kTrue ? 1.f : 0.f;
  }

  MAGLEV_HD static void write(const State& s, int32_t* goal) {
    for (int i = 0; i < kAtoms * 3; ++i) goal[i] = 0;
    if (s.over) {
      goal[0] = s.over;
      return;
    }
    if (s.toll) goal[0] = kToll, goal[1] = s.place, goal += 3;
    goal[0] = kPath, goal[1] = s.place, goal[2] = s.target;
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    write(s, out.as<int32_t>(0));
    int32_t* goals = out.as<int32_t>(1);
    const int n = count(s);
    for (int i = 0; i < kSuccessors; ++i) {
      int32_t* goal = goals + i * kAtoms * 3;
      if (i < n) write(successor(s, i), goal);
      else
        for (int k = 0; k < kAtoms * 3; ++k) goal[k] = 0;
      // where nothing follows any action will do
      out.mask[i] = i < n || (n == 0 && i == 0);
    }
  }
};

}  // namespace maglev
