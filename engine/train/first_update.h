#pragma once
// When a run that learns from a replay makes its first update, and what it will wait for after
// that, as settings alone have it before step 0.

#include <string>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"

namespace maglev {

/// Steps done when the first update is made at the earliest: `plan` has one due, and each of `rows`
/// rows, of all processes, has the steps of a sequence. Iterations are of `collect_steps` of each
/// row; with `overlap` the next one's updates come first. -1: none is ever due.
int64_t first_update(const ReplayPlan& plan, int64_t collect_steps, int64_t rows, bool overlap);

/// For people, of a run whose steps are over before that: why, and what would help. Empty: an
/// update may come, or the run has no replay, or one of files.
std::string why_no_update(const Experiment& experiment, const Placement& placement);

/// For people, of a replay of finished episodes that keeps fewer steps of an environment than an
/// episode may take: updates come in bursts, and the last may not come. With the capacity that is
/// enough. Empty: it is enough, or no episode's limit is known.
std::string short_replay_note(const Experiment& experiment, const Placement& placement);

}  // namespace maglev
