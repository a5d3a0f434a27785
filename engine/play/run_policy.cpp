#include "engine/play/run_policy.h"

#include <algorithm>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"

namespace maglev {

RunPolicy::RunPolicy(const std::string& folder, const std::string& which,
                     const std::vector<std::string>& settings, const std::string& device) {
  const auto span = trace::stage("load");
  claim_threads();
  experiment_ = experiment_of(folder);
  for (const std::string& setting : settings) experiment_->table().override_with(setting);
  // what was trained held together; how it is to act besides may not
  if (std::ranges::any_of(settings, [](const auto& s) { return !s.starts_with("env."); }))
    experiment_->settle();
  checkpoint_ = checkpoint_of(folder, which);
  const RunOptions& run = experiment_->run;
  try {
    placement_ = place(device.empty() ? run.device : device, run.threads);
  } catch (const Error& e) {
    if (!device.empty()) throw;
    throw Error(std::string(e.what()) + "; " + folder + "/config.yaml says where it was trained");
  }
  pool_ = std::make_unique<ThreadPool>(placement_.threads);
  policy_ = experiment_->algo().make_policy(experiment_->algo_options(),
                                            context_of(*experiment_, placement_, *pool_));
  // the policy alone: what else the run keeps may be far larger
  identity_ = load_section(checkpoint_, "algo", identity_of(*experiment_),
                           [&](StateVisitor& v) { policy_->visit_state(v); });
  policy_->publish();
}

}  // namespace maglev
