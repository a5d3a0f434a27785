#pragma once
// Several settings of one run measured in turn, each round of each in a process of its own: what
// disturbs the machine for a while, or a whole day, meets all alike, and memory is one setting's.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/terminal.h"
#include "engine/algo/experiment.h"
#include "verbs/bench/run_speed.h"
#include "verbs/bench/timings.h"

namespace maglev::verbs::bench {

/// A run as it is measured beside others. The first of several has no changes.
struct Arm {
  std::vector<std::string> changes = {};  ///< name=value that are otherwise than in the first
  std::vector<std::string> words = {};    ///< of `bench run`: the pair, flags and settings
  /// Every setting of the run, and its value as text.
  std::vector<std::pair<std::string, std::string>> settings = {};
  std::vector<RunSpeed> rounds = {};  ///< one sample each

  /// The changes, for people.
  std::string name() const;
  /// Seconds of an environment step, round by round.
  Timing step() const;
  /// All rounds as one: their samples, the most memory that any took, and else as the last.
  RunSpeed speed() const;
};

/// Whether the setting of this dotted name is of what bench run and tune leave out, which train in
/// memory alone for as long as they want: files, a run's evaluation, traces, and when it ends.
bool unmeasured(std::string_view setting);

/// The name=value between spaces that --against says. Throws Error where a word is none, or a
/// setting that is unmeasured().
std::vector<std::string> changes_of(const std::string& against);

/// The arm's settings as those of `experiment`, which has taken them. Throws Error where all that it
/// changes is as it was in an arm of `before`, or without effect; returns lines for people on those
/// that are without beside others.
std::vector<std::string> settle_arm(Arm& arm, const Experiment& experiment,
                                    const std::vector<Arm>& before);

/// Adds `rounds` rounds of `seconds` each to every arm, in turn, A B C C B A A B C, so that none is
/// always behind the same one; tells them on stderr. Throws Error with what an arm's
/// run said when it failed; Interrupted (run_child.h).
void measure_in_turn(std::vector<Arm>& arms, int rounds, double seconds);

/// An arm beside the first one.
struct ArmComparison {
  std::vector<double> ratios;  ///< its steps a second over the first's, round by round
  double ratio;                ///< their median
  Interval interval;           ///< of the median, as TimingSummary's
  Verdict verdict;
};
/// Faster where the interval of the ratios lies above 1 and their median above 1 + `threshold`;
/// slower likewise; too few of fewer than kLeastJudged rounds.
ArmComparison beside(const Arm& arm, const Arm& first, double threshold);

/// For people: a table, then the ratios round by round.
std::string arms_text(const std::vector<Arm>& arms, double threshold, const Terminal& terminal);
/// {"machine", "arms": [{"changes", "settings", "device", "seconds", "steps_per_second", ...}]}.
std::string arms_json(const std::vector<Arm>& arms, double threshold, const std::string& machine);

/// What `bench run --lines` prints, and what it says. Throws Error where it is none.
std::string line_of(const RunSpeed& speed);
RunSpeed speed_of_line(const std::string& line);

}  // namespace maglev::verbs::bench
