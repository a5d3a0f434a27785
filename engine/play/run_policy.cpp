#include "engine/play/run_policy.h"

#include <cstdio>
#include <vector>

#include "base/core/error.h"
#include "base/core/file.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/stored_experiment.h"

namespace maglev {

std::string checkpoint_of(const std::string& folder, const std::string& which) {
  CheckpointStore store(folder, 0);
  const auto tell = [](const std::string& note) { std::fprintf(stderr, "%s\n", note.c_str()); };
  if (which == "best") {
    const std::string best = store.best();
    if (best.empty())
      throw Error("[" + folder +
                  "] has no best checkpoint yet: an evaluation or 100 finished episodes make one; "
                  "take the latest, or train longer");
    return best;
  }
  if (which == "latest") {
    const std::string newest = store.newest_valid(tell);
    if (newest.empty())
      throw Error("[" + folder + "] holds no valid checkpoint; train longer or resume the run");
    return newest;
  }
  // one of the run's own by its name, or a path
  const std::string own = folder + "/checkpoints/" + which;
  for (const std::string& path : {own, which})
    if (path_exists(path + "/manifest.json")) return path;
  std::vector<std::string> known{"latest", "best"};
  for (const CheckpointRow& row : store.list())
    known.push_back(row.path.substr(row.path.rfind('/') + 1));
  throw Error("[" + folder + "] " + unknown_name("checkpoint", which, known));
}

RunPolicy::RunPolicy(const std::string& folder, const std::string& which,
                     const std::vector<std::string>& settings, const std::string& device) {
  claim_threads();
  experiment_ = experiment_of(folder);
  for (const std::string& setting : settings) experiment_->table().override_with(setting);
  checkpoint_ = checkpoint_of(folder, which);
  const RunOptions& run = experiment_->run;
  placement_ = place(device.empty() ? run.device : device, run.threads);
  pool_ = std::make_unique<ThreadPool>(placement_.threads);
  policy_ = experiment_->algo().make_policy(experiment_->algo_options(),
                                            context_of(*experiment_, placement_, *pool_));
  // the policy alone: what else the run keeps may be far larger
  identity_ = load_section(checkpoint_, "algo", identity_of(*experiment_),
                           [&](StateVisitor& v) { policy_->visit_state(v); });
  policy_->publish();
}

}  // namespace maglev
