#include "engine/play/run_policy.h"

#include <algorithm>

#include "base/core/error.h"
#include "base/core/words.h"
#include "base/trace/span.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"

namespace maglev {
namespace {

/// Settings of the environment that were given and are otherwise than in training: "env.atoms=10 (6
/// as it was trained)".
std::vector<std::string> changed_env(const std::string& folder, const Experiment& here,
                                     const std::vector<std::string>& given) {
  const auto trained = experiment_of(folder);
  std::vector<std::string> changed;
  for (const std::string& setting : given) {
    const std::string name = setting.substr(0, setting.find('='));
    const Field *now = here.table().find(name), *then = trained->table().find(name);
    if (name.starts_with("env.") && now && then && now->plain() != then->plain())
      changed.push_back(name + "=" + now->plain() + " (" + then->plain() + " as it was trained)");
  }
  return changed;
}

}  // namespace

RunPolicy::RunPolicy(const std::string& folder, const std::string& which,
                     const std::vector<std::string>& settings, const std::string& device) {
  const auto span = trace::stage("load");
  claim_threads();
  experiment_ = experiment_of(folder);
  experiment_->table().override_with(settings);
  // what was trained held together; how it is to act besides may not
  if (std::ranges::any_of(settings, [](const auto& s) { return !s.starts_with("env."); }))
    experiment_->settle(/*of_run=*/true);
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
  try {
    identity_ = load_section(checkpoint_, "algo", identity_of(*experiment_),
                             [&](StateVisitor& v) { policy_->visit_state(v); });
  } catch (const UnlikeState&) {
    const auto changed = changed_env(folder, *experiment_, settings);
    if (changed.empty()) throw;
    throw Error("[" + folder + "] its networks do not fit " + joined(changed, ", ") +
                "; leave that out, or train a run with it");
  }
  policy_->publish();
}

}  // namespace maglev
