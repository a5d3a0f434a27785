#include "engine/run/stored_experiment.h"

#include "engine/run/run_dir.h"

namespace maglev {

std::unique_ptr<Experiment> experiment_of(const std::string& folder) {
  RunStatus status = read_status(folder);
  auto experiment = std::make_unique<Experiment>(status.algo, status.env);
  experiment->table().load_text(read_config(folder), folder + "/config.yaml");
  return experiment;
}

}  // namespace maglev
