#include "engine/train/init_from.h"

#include "base/core/error.h"
#include "engine/run/checkpoint.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"

namespace maglev {

void init_from(Trainer& trainer, const std::string& name) {
  const auto run = run_named(name);
  if (!run) throw Error("[train] train.init_from: " + std::string(no_run(name).what()));
  const std::string checkpoint = checkpoint_of(run->folder, run->checkpoint);
  Algorithm& algorithm = trainer.algorithm();
  load_networks(
      checkpoint, identity_of(trainer.experiment()),
      [&](StateVisitor& v) { algorithm.visit_state(v); },
      [&](StateVisitor& v) { algorithm.policy().visit_state(v); });
  algorithm.follow_networks();
  algorithm.publish();
}

}  // namespace maglev
