#pragma once
// train --continue: a command that is started again goes on with what it began.

#include <cstdint>
#include <optional>
#include <string>

#include "engine/algo/experiment.h"
#include "engine/train/training_run.h"

namespace maglev::verbs::train {

/// The settings that somebody gave, by profile, file or command line, a line of name=value each:
/// what a run's given.txt holds, and what a command that is started again is compared with.
std::string given_settings(const OptionTable& table);

/// Goes on with what `request.out` holds, as `experiment` asks for it now: with settings that are
/// given anew or otherwise, but not where it is finished. None where there is nothing to go on
/// with: a new run begins, and takes the place of one that had saved nothing. Throws Error where
/// the folder holds something else, or what a run had saved is gone.
std::optional<RunOutcome> go_on(const Experiment& experiment, std::optional<int64_t> seeds,
                                RunRequest& request);

}  // namespace maglev::verbs::train
