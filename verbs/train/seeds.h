#pragma once
// Several seeds of one experiment: a run folder each under one parent, side by side as far as
// threads reach, and at the end what they came to together.
//   seeds.json      algorithm, environment, each seed's state, return of training and last evaluation;
//                   mean, deviation and interval of the evaluations, or of the returns without any
//   settings.yaml   the settings all share; given.txt those that were given, at first and later
//   seed-<n>/       the run of a seed; seed-<n>.txt what it printed
//   seeds.lock      held while this group trains

#include <cstdint>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/run/run_dir.h"
#include "engine/train/training_run.h"

namespace maglev::verbs::train {

/// train's exit status when a signal stopped it.
constexpr int kStopped = 130;

struct SeedsRequest {
  std::string out = {};  ///< the parent; empty: runs/<date>-<algorithm>-<environment>-seeds-<n>
  int64_t count = 0;     ///< seeds from the experiment's on
  std::vector<std::string> sinks = {};  ///< of each run; empty: those on by default but the console
  std::string given = {};               ///< for given.txt, see again.h
};

/// Trains them all and prints the table. A seed that fails once it trains does not end the others.
/// Throws Error when the settings are refused, or some seed failed, after the table.
RunOutcome train_seeds(const Experiment& experiment, const SeedsRequest& request);

/// Mean return of a run's last evaluation; NaN: there was none.
double last_evaluation(const std::string& run);
/// Throws Error where a run without checkpoints had trained: what it had learned is gone, and it is
/// not begun anew unasked. `anew`: how it can be begun anew; `known_steps`: what others know that it
/// had done.
void expect_nothing_lost(const std::string& run, const std::string& anew, int64_t known_steps = 0);
/// What ended a process of this exit status (verbs/child.h), where a signal did but the one that
/// stops a run: "ended: signal 9 (Killed), ..."; else empty.
std::string killed_text(int status);
/// What is said of a seed that train.stall_end ended.
constexpr const char* kStalledText = "ended: it stood still (train.stall_end)";
/// What a process said last, by its log; empty where it said nothing.
std::string last_line(const std::string& log);

/// What several seeds are of. Throws Error where seeds.json cannot be read.
struct SeedsGroup {
  std::string algo, env;
  int64_t count = 0;
};
SeedsGroup seeds_group(const std::string& folder);
/// Several seeds as one row, called `name`: "2 of 3 seeds finished", the steps of all, the mean
/// return of training of those.
RunRow seeds_row(const std::string& folder, const std::string& name);
/// Whether seeds that go on take this name=value: train.steps alone, for what they come to together
/// is of equal settings.
bool for_seeds(const std::string& setting);
/// What becomes of a seed that had trained and whose folder is gone.
enum class RemovedSeed { is_lost, begins_anew };
/// Goes on where each seed is; one that is done is not done again. `settings`: how long each trains
/// from now on, which settings.yaml says then too, the one before being kept as
/// settings.before-<steps>.yaml. `count`: how many there are from now on, those to come being numbered
/// behind the last, and the last ones that never began being left out; 0: as many as before. Throws
/// Error where fewer are asked for than began, where something lies in the way of a new one, where
/// they are to train shorter, on other settings, and where what a seed had learned is lost.
RunOutcome resume_seeds(const std::string& folder, const std::vector<std::string>& sinks,
                        const std::vector<std::string>& settings = {},
                        RemovedSeed removed = RemovedSeed::is_lost, int64_t count = 0);

}  // namespace maglev::verbs::train
