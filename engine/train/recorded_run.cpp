#include "engine/train/recorded_run.h"

#include "base/core/thread_pool.h"
#include "base/core/version.h"

namespace maglev {

trace::RecordedRun recorded_run(Trainer& trainer, const std::string& folder) {
  const Experiment& experiment = trainer.experiment();
  const VecEnv& envs = trainer.envs();
  const int64_t agents = envs.agents();
  const int64_t block = trainer.algorithm().plan().block_of(envs.rows(), agents);
  trace::RecordedRun run{.version = kEngineVersion,
                         .run = folder,
                         .algorithm = experiment.algo().name,
                         .environment = experiment.env().name,
                         .device = trainer.placement().device.str(),
                         .mode = {},
                         .window = {},
                         .reason = {},
                         .threads = trainer.placement().threads,
                         .processors = usable_cpus(),
                         .iteration_steps = trainer.steps_per_iteration(),
                         .block_environments = experiment.env().at_once == 1 ? 1 : block / agents};
  for (const Field& field : experiment.table().fields())
    run.settings.emplace_back(field.name, field.plain());
  return run;
}

}  // namespace maglev
