#pragma once
// A run's policy as the scores of a beam: how likely it is to take each child of a goal.

#include <span>
#include <vector>

#include "base/datalog/search.h"
#include "engine/algo/experiment.h"
#include "engine/algo/policy.h"
#include "engine/play/host_step.h"
#include "envs/kg/kg.h"

namespace maglev::verbs::prove {

class PolicyScores {
 public:
  /// `policy` is on `device`, and outlives this with `experiment`. Throws Error where that is not one
  /// of environment kg.
  PolicyScores(const Experiment& experiment, Policy& policy, at::Device device = at::kCPU);

  /// Of datalog::Scores. A child that a state of the environment has no room for, and what the
  /// policy was never offered, gets kUnseen. Throws Error where the policy tells no probabilities.
  void operator()(std::span<const datalog::Expansion> expansions, std::span<float> scores);
  static constexpr float kUnseen = -50;

  const Kg::Params& params() const { return params_; }

 private:
  /// Writes an expansion as a row of observations; whether each child has a place, in their order.
  std::vector<int32_t> show(const datalog::Expansion& expansion, int64_t row);

  const Experiment& experiment_;
  Policy& policy_;
  const Kg::Params params_;
  EnvSpec spec_;
  int32_t constants_, predicates_;
  HostStep step_;
};

}  // namespace maglev::verbs::prove
