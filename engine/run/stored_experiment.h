#pragma once
// A run folder's settings, read back.

#include <memory>
#include <string>

#include "engine/algo/experiment.h"

namespace maglev {

/// The experiment a run folder was made with: as run.json and config.yaml say, and where one is
/// missing or run.json is damaged, as the newest checkpoint says. Throws Error when it holds no run.
std::unique_ptr<Experiment> experiment_of(const std::string& folder);

}  // namespace maglev
