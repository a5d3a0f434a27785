#pragma once
// Any environment of Python's package gymnasium, or that is registered with it, and any of several
// agents that has the interface of PettingZoo's ParallelEnv: Python processes step it, each
// environment of a run in one of them, while the engine has everything else. See docs/gymnasium.md
// and docs/pettingzoo.md.
//
// An episode is what reset(seed) and its actions make of it. So a checkpoint holds those, and an
// environment whose steps follow from them alone goes on to the bit.

#include <memory>
#include <vector>

#include "base/env/env.h"
#include "base/picture/canvas.h"

namespace maglev {

namespace gymnasium {
class Remote;
class Workers;
}  // namespace gymnasium

struct Gymnasium {
  static constexpr const char* kSummary =
      "any environment of Python's gymnasium, by its id, or of PettingZoo's (a ParallelEnv)";
  static constexpr bool kHostOnly = true;
  static constexpr bool kAgentsBySettings = true;
  static constexpr const char* kLibrary = "Gymnasium";
  static constexpr bool kShowsImages = true;

  struct Params {
    Text<128> id = "CartPole-v1";
    Text<512> kwargs = "";
    Text<256> info = "";
    bool masks = true;
    int32_t max_steps = 0;
    int32_t workers = 0;
    int32_t timeout = 0;
    Text<256> python = "";

    static void describe(OptionTable& t, Params& p) {
      t.add("id", p.id,
            "which, as gymnasium.make takes it: CartPole-v1, or my_module:MyEnv-v0, which imports "
            "my_module first; my_module:MyEnv is a class of it, or a function that makes one, also "
            "of PettingZoo's ParallelEnv");
      t.add("kwargs", p.kwargs,
            "JSON of what gymnasium.make is given besides, {\"map_name\": \"8x8\"}");
      t.add("info", p.info,
            "names in the info of a step, by commas, whose numbers are added up as events: "
            "is_success");
      t.add("masks", p.masks,
            "action_mask says which categories are allowed; false: it is not looked at, for masks "
            "that are advice and for algorithms that take none");
      t.add("max_steps", p.max_steps,
            "episode limit; 0: the one it is registered with, 10,000 where there is none",
            {.min = 0, .max = 1e6, .unit = "steps"});
      t.add("workers", p.workers,
            "Python processes that step the environments; 0: one for each processor",
            {.min = 0, .max = 1024, .free = true});
      t.add("timeout", p.timeout,
            "how long an environment may be silent in a reset or a step before the run ends with "
            "an error; 0: it is waited for",
            {.min = 0, .max = 1e6, .unit = "seconds", .free = true});
      t.add("python", p.python,
            "the Python that has gymnasium and the environment; empty: the one Maglev was built "
            "with",
            {.free = true});
    }
  };

  struct State {
    State();
    ~State();
    State(State&&) noexcept;
    State& operator=(State&&) noexcept;

    gymnasium::Workers* workers = nullptr;      ///< where it lives, from the first reset on
    std::unique_ptr<gymnasium::Remote> remote;  ///< it
    uint32_t seed = 0;                          ///< of this episode
    int32_t steps = 0;                          ///< of this episode
    enum class Asked : uint8_t { nothing, reset, step };
    Asked asked = Asked::nothing;  ///< whose answer nobody has taken yet
    std::vector<AgentEnd> ends;    ///< [agents] what the last step was to each
    // of an episode that was loaded
    mutable bool replaying = false;  ///< its steps are taken again; the answer has not been taken
    mutable bool lost = false;       ///< they led elsewhere, or were too many to be kept
    std::vector<std::byte> shown;    ///< what it showed when it was saved
    std::vector<std::byte> actions;  ///< of this episode, as they were sent
  };

  /// Throws Error on what Python says is wrong with the id or kwargs, and on spaces that are none of
  /// numbers.
  static void check(const Params& p);
  static EnvSpec spec(const Params& p);
  /// EnvEntry::end_idle: processes without environments of anybody's.
  static void end_idle();
  static void begin_reset(const Params& p, State& s, Rng& rng);
  static void reset(const Params& p, State& s, Rng& rng);
  static void begin_step(const Params& p, State& s, const Actions& action);
  static void send_begun(const Params& p, State& s);
  static void step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out);
  static AgentEnd end_of(const Params& p, const State& s, int agent);
  static void observe(const Params& p, const State& s, int agent, const ObsOut& out);
  static void paint(const Params& p, const State& s, Canvas& canvas);

  static size_t state_bytes(const Params& p);
  static size_t program_bytes(const Params& p, int64_t count);
  static void save(const Params& p, const State& s, std::byte* to);
  static bool load(const Params& p, State& s, const std::byte* from);
};

}  // namespace maglev
