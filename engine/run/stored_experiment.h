#pragma once
// A run folder's settings, read back.

#include <memory>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/run/manifest.h"

namespace maglev {

/// A run's settings by both of its accounts.
struct StoredExperiment {
  /// With those it goes on with: config.yaml's, and the newest checkpoint's where that file is
  /// missing, damaged or lacks some.
  std::unique_ptr<Experiment> experiment;
  /// With those its newest checkpoint was trained with; without any checkpoint, the same as
  /// `experiment`. They differ where a person edited config.yaml, or a resume that changed settings
  /// has saved nothing yet.
  std::unique_ptr<Experiment> trained;
  /// For people: what config.yaml did not hold; empty: nothing that matters.
  std::string note = {};
};

/// What a run folder holds. Algorithm and environment are as run.json says, or the newest checkpoint
/// where that is missing or damaged. Settings newer than the run have their defaults. Throws Error
/// when it holds no run, or neither file nor checkpoint has settings that this version takes.
StoredExperiment stored_experiment(const std::string& folder);

/// StoredExperiment::experiment of it alone. Throws Error as that does.
std::unique_ptr<Experiment> experiment_of(const std::string& folder);

/// What a checkpoint of the experiment has to be of: algorithm, environment and tokens.
CheckpointIdentity identity_of(const Experiment& experiment);

/// What the environment of a run reads, where it is not what the run was trained on: the files and
/// folders, "/data/graph", the settings that name it, "env.data=umls", or the environment itself;
/// of which one may say that it "holds something else". Empty: it is the same, or no checkpoint
/// says, or it cannot be read. Among `given`, name=value, are files that have moved since; nothing
/// is said where they ask for something of another name.
std::string changed_files(const Experiment& trained, const std::string& folder,
                          const std::vector<std::string>& given);
/// The same of a checkpoint that was read already.
std::string changed_files(const Experiment& trained, const StateSummary& saved,
                          const std::vector<std::string>& given);

}  // namespace maglev
