#pragma once
// What bounds a run now, and the one change that is most worth a try: from where its time goes and
// what it was free to use.

#include <array>
#include <cstdint>
#include <limits>
#include <string>

namespace maglev {

/// Where the time of some seconds went, and what could have been used.
struct Load {
  /// Shares of the time by the clock, as a row of metrics has them.
  double environment = 0, policy = 0, learn = 0, copy = 0;
  /// Shares in which the loop did none of it: rows of metrics with the hook that hears of them,
  /// checkpoints, waiting for an evaluation, other hooks.
  double logging = 0, saving = 0, evaluating = 0, hooks = 0;
  double processors = 0;  ///< that the process kept busy
  /// Programs that the process started, such as environments' Python processes, and processors that
  /// they kept busy.
  int programs = 0;
  double programs_processors = 0;
  int64_t most_workers = 0;  ///< that env.workers takes; 0: the environment has no such setting
  /// Threads of the process, and of those programs, that were ready to go on and waited for a
  /// processor, on average; NaN: not known.
  double queued = std::numeric_limits<double>::quiet_NaN(),
         programs_queued = std::numeric_limits<double>::quiet_NaN();
  /// Share of the time in which something ran on the GPU; NaN: not known, or there is none.
  double device_busy = std::numeric_limits<double>::quiet_NaN();
  /// Shares of the last ten seconds in which something on the machine waited for memory, and for a
  /// processor; NaN: not known.
  double memory_pressure = std::numeric_limits<double>::quiet_NaN(),
         processor_pressure = std::numeric_limits<double>::quiet_NaN();

  int threads = 1, usable = 1;  ///< of the run; that this process may have
  bool on_device = false;       ///< a GPU does the work
  bool host_steps = false;      ///< all but that of the environments, which the host steps
  bool launches = false;        ///< no graph replays what the host launches
  bool may_capture = false;     ///< then: train.graph=on could be and is not
  int64_t rows = 1, block_rows = 1,
          agents = 1;                 ///< that act; that a thread acts for at once; a game's
  int64_t busy_rows = 1;              ///< of which every thread would have a block
  int64_t processes = 1;              ///< that share the run, each with so many rows of its own
  bool may_overlap = false;           ///< train.overlap=true could be and is not
  bool may_round = false;             ///< train.precision=bf16 could be and is not
  std::string for_more_threads = {};  ///< the setting that deals an update to more; empty: none
  bool saves_to_evaluate = false;     ///< most checkpoints are there to be evaluated
};

enum class Bound {
  memory,
  crowding,
  processors,
  threads,
  device,
  waiting,
  environment,
  policy,
  learning,
  copying,
  logging,
  saving,
  evaluation,
  hooks,
  other
};
constexpr auto names_of(Bound) {
  return std::array{"memory",  "crowding",    "processors", "threads",  "device",
                    "waiting", "environment", "policy",     "learning", "copying",
                    "logging", "saving",      "evaluation", "hooks",    "other"};
}

struct Bottleneck {
  Bound bound = Bound::other;
  double share = 0;            ///< of the time, or of what was waited for
  std::string advice;          ///< what to try, e.g. "threads=0 uses all 8 processors"
  std::string meanwhile = {};  ///< what an idle GPU waits for, e.g. "the host steps environments"
  /// "learning, 62 % of the time: train.precision=bf16".
  std::string text() const;
};

Bottleneck bottleneck_of(const Load& load);

}  // namespace maglev
