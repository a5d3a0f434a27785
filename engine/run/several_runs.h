#pragma once
// Folders that hold several runs which belong together: the trials of a sweep (verbs/sweep/board.h),
// the seeds of a group (verbs/train/seeds.h).

#include <optional>
#include <string>

#include "base/core/error.h"

namespace maglev {

/// Whether the folder holds a sweep, or several seeds.
bool is_sweep(const std::string& folder);
bool is_seeds(const std::string& folder);

/// What is said where one run is asked for and `name`, FOLDER or FOLDER@CHECKPOINT, is such a folder:
/// its runs with what each came to, those with the best scores first. None where it is none.
std::optional<Error> several_runs(const std::string& name);

}  // namespace maglev
