#pragma once
// A run folder's settings, read back.

#include <memory>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/run/manifest.h"

namespace maglev {

/// The experiment a run folder was made with: as run.json and config.yaml say, and where one is
/// missing or run.json is damaged, as the newest checkpoint says. Throws Error when it holds no
/// run.
std::unique_ptr<Experiment> experiment_of(const std::string& folder);

/// What a checkpoint of the experiment has to be of: algorithm, environment and tokens.
CheckpointIdentity identity_of(const Experiment& experiment);

/// What the environment of a run reads, where it is not what the run was trained on: the files and
/// folders, "/data/graph", the settings that name it, "env.data=umls", or the environment itself;
/// of which one may say that it "holds something else". Empty: it is the same, or no checkpoint
/// says, or it cannot be read. Among `given`, name=value, are files that have moved since; nothing
/// is said where they ask for something of another name.
std::string changed_files(const std::string& folder, const std::vector<std::string>& given);

}  // namespace maglev
