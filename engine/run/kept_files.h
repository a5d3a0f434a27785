#pragma once
// Files that settings name and a run goes on reading: a new run has copies in its folder, and so is
// whole wherever it lies.

#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/run/run_dir.h"

namespace maglev {

/// Hash of what they hold; empty: settings name none. Throws Error where one cannot be read.
std::string held_by_files(const Experiment& experiment);
/// Copies them into the folder of a run, unless they are there. Settings and words of `command`,
/// which may have named others, name these from then on. Throws Error where one cannot be read, or
/// holds something else than `held` says: networks were made of that.
void keep_files(RunDir& dir, Experiment& experiment, std::vector<std::string>& command,
                const std::string& held);
/// Has settings of the run in `folder` name what lies there, whatever they named.
void take_kept_files(Experiment& experiment, const std::string& folder);
/// Throws Error where a setting names another file than that of `trained`.
void expect_kept_files(const Experiment& experiment, const Experiment& trained);

}  // namespace maglev
