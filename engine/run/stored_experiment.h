#pragma once
// A run folder's settings, read back.

#include <memory>
#include <string>

#include "engine/algo/experiment.h"
#include "engine/run/manifest.h"

namespace maglev {

/// The experiment a run folder was made with: as run.json and config.yaml say, and where one is
/// missing or run.json is damaged, as the newest checkpoint says. Throws Error when it holds no
/// run.
std::unique_ptr<Experiment> experiment_of(const std::string& folder);

/// What a checkpoint of the experiment has to be of: algorithm, environment and tokens.
CheckpointIdentity identity_of(const Experiment& experiment);

}  // namespace maglev
