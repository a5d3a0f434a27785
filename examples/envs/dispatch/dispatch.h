#pragma once
// An environment that only the host steps, to learn from and to copy: a dispatcher chooses which of
// several queues is served next. Its state is a standard container, as a library's would be a
// handle, and its functions lie in dispatch.cpp. Beside a network on CUDA it steps on the host's
// threads.
//
// An environment that needs a library says which in libraries.cmake beside this file; see
// docs/adding_an_environment.md.

#include <deque>
#include <vector>

#include "base/env/env.h"
#include "base/picture/canvas.h"

namespace maglev {

struct Dispatch {
  static constexpr const char* kSummary = "choose which queue is served next (an example)";
  // no CUDA twin is made, and State may be of any type
  static constexpr bool kHostOnly = true;

  struct Params {
    int32_t queues = 3;
    int32_t capacity = 8;
    float load = 0.3f;
    int32_t max_steps = 200;

    static void describe(OptionTable& t, Params& p) {
      t.add("queues", p.queues, "queues that wait", {.min = 2, .max = 64});
      t.add("capacity", p.capacity, "jobs a queue holds; more are lost", {.min = 1, .max = 1e4});
      t.add("load", p.load, "chance that a job joins a queue in a step", {.min = 0, .max = 1});
      t.add("max_steps", p.max_steps, "episode limit", {.min = 1, .max = 1e6, .unit = "steps"});
    }
  };

  struct State {
    std::vector<std::deque<int32_t>> waiting;  ///< of each queue, the steps its jobs came at
    int32_t steps = 0;
  };

  static EnvSpec spec(const Params& p);
  static void reset(const Params& p, State& s, Rng& rng);
  static void step(const Params& p, State& s, const Actions& action, Rng& rng, StepOut& out);
  static void observe(const Params& p, const State& s, int agent, const ObsOut& out);

  static void paint(const Params& p, const State& s, Canvas& canvas);

  // A checkpoint holds a state as this many bytes: save writes them into zeroed memory, load makes
  // the state again, or says that no episode leaves such bytes.
  static size_t state_bytes(const Params& p);
  static void save(const Params& p, const State& s, std::byte* to);
  static bool load(const Params& p, State& s, const std::byte* from);
};

}  // namespace maglev
