#include "engine/run/stored_experiment.h"

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/hash.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"

namespace maglev {
namespace {

// a checkpoint says everything again; none: an empty identity
CheckpointIdentity newest_identity(const std::string& folder) {
  const auto rows = CheckpointStore(folder, 0).list();
  return rows.empty() ? CheckpointIdentity{} : rows.back().identity;
}

}  // namespace

std::unique_ptr<Experiment> experiment_of(const std::string& folder) {
  if (!is_run(folder)) throw no_run(folder);
  CheckpointIdentity identity;
  try {
    const RunStatus status = read_status(folder);
    identity = {.algo = status.algo, .env = status.env};
  } catch (const Error&) {
    identity = newest_identity(folder);
    if (identity.algo.empty()) throw;
  }
  auto experiment = std::make_unique<Experiment>(identity.algo, identity.env);
  const std::string path = folder + "/config.yaml";
  if (path_exists(path)) {
    experiment->table().load_text(read_config(folder), path);
    return experiment;
  }
  identity = newest_identity(folder);
  if (identity.algo.empty())
    throw Error("[" + path +
                "] is missing, and no checkpoint holds the settings either; start the "
                "run again");
  experiment->table().load_text(identity.options_yaml, folder + "/checkpoints");
  return experiment;
}

CheckpointIdentity identity_of(const Experiment& experiment) {
  CheckpointIdentity identity{.algo = experiment.algo().name, .env = experiment.env().name};
  Hash tokens;
  bool any = false;
  for (const ObsColumn& column : experiment.spec().observations) {
    tokens.add_text(column.tokens);
    any |= !column.tokens.empty();
  }
  if (any) identity.tokens = tokens.hex();
  return identity;
}

}  // namespace maglev
