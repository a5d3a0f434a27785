#pragma once
// A run's policy as it was saved, in the experiment it was trained in: what evaluates, ranks,
// proves and explains begins with it.

#include <memory>
#include <string>
#include <vector>

#include "base/core/thread_pool.h"
#include "engine/algo/experiment.h"
#include "engine/algo/policy.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"

namespace maglev {

class RunPolicy {
 public:
  /// `settings` are name=value that may differ from training, e.g. of the environment; on `device`,
  /// or where the run was trained where that is empty. Calls claim_threads. Throws Error.
  RunPolicy(const std::string& folder, const std::string& which = "latest",
            const std::vector<std::string>& settings = {}, const std::string& device = {});

  const Experiment& experiment() const { return *experiment_; }
  const Placement& placement() const { return placement_; }
  ThreadPool& pool() { return *pool_; }
  Policy& policy() { return *policy_; }
  const std::string& checkpoint() const { return checkpoint_; }
  const CheckpointIdentity& identity() const { return identity_; }

 private:
  std::unique_ptr<Experiment> experiment_;
  Placement placement_{.device = at::kCPU};
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Policy> policy_;
  std::string checkpoint_;
  CheckpointIdentity identity_;
};

}  // namespace maglev
