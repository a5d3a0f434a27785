#pragma once
// What was measured when, and of what: a line of JSON for each experiment, so that a file of them is
// the history of a run's speed.

#include <optional>
#include <string>
#include <vector>

#include "base/statistics/samples.h"
#include "verbs/bench/run_speed.h"
#include "verbs/bench/timings.h"

namespace maglev::verbs::bench {

/// What a run was measured beside.
struct Reference {
  std::string what;  ///< a baseline's file, or the settings of the first of several
  TimingSummary step;
  double ratio;  ///< steps a second over those before
  Verdict verdict;
};

struct Logged {
  std::string what;                   ///< "ppo cartpole"
  std::vector<std::string> settings;  ///< name=value as they were given
  std::string note;                   ///< what was tried, in somebody's words; empty: nothing
  std::string machine;
  TimingSummary step;  ///< seconds of an environment step
  RunSpeed run;        ///< its iteration and its memory
  std::optional<Reference> before = {};
};

/// {"date", "what", "settings", "machine", "commit", "steps_per_second", "interval", "ratio", ...}
/// with a line's end; `date` is in UTC, `commit` this build's where it is known; of too few rounds
/// "range" in place of "interval".
std::string log_line(const Logged& logged);

}  // namespace maglev::verbs::bench
