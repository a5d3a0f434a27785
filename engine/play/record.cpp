#include "engine/play/record.h"

#include <vector>

#include "engine/data/rollout.h"
#include "engine/data/vec_env.h"

namespace maglev {

Batch record_play(Policy& policy, const Experiment& experiment, const Placement& placement,
                  ThreadPool& pool, const RecordOptions& options) {
  VecEnv envs(experiment.env(), experiment.env_params(), options.envs, options.seed,
              placement.device, pool);
  const int64_t block = block_rows(policy.block_rows(), envs.rows(), envs.agents());
  Rollout store(envs.spec(), {.T = options.steps, .rows = envs.rows(), .block_rows = block}, {},
                placement.device);
  Carry carry = policy.initial_carry(envs.rows());
  ActKey key{.seed = options.seed, .purpose = Purpose::eval};
  envs.reset(store.first_io());
  for (int64_t t = 0; t < options.steps; ++t) {
    key.step = t;
    for (TimeStep& part : store.step(t).blocks) {
      Carry own = carry.rows(part.first, part.rows());
      policy.act(part, own, options.mode, key);
    }
    envs.step(store.io(t));
  }
  return store.batch();
}

}  // namespace maglev
