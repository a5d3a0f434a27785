#pragma once
// A run's policy as the scores of a beam: how likely it is to take each child of a goal.

#include <memory>
#include <span>

#include "base/datalog/search.h"
#include "engine/data/step_window.h"
#include "engine/play/run_policy.h"
#include "envs/kg/kg.h"

namespace maglev::verbs::prove {

class PolicyScores {
 public:
  /// Throws Error where the run is not one of environment kg, or its policy tells no probabilities.
  explicit PolicyScores(RunPolicy& run);

  /// Of datalog::Scores. A child that a state of the environment has no room for, and what the
  /// policy was never offered, gets kUnseen.
  void operator()(std::span<const datalog::Expansion> expansions, std::span<float> scores);
  static constexpr float kUnseen = -50;

  const Kg::Params& params() const { return params_; }

 private:
  /// Writes an expansion as a row of observations; whether each child has a place, in their order.
  std::vector<int32_t> show(const datalog::Expansion& expansion, int64_t row);

  RunPolicy& run_;
  const Kg::Params params_;
  EnvSpec spec_;
  int32_t constants_, predicates_;
  int64_t rows_;
  Batch columns_;
  StepWindow window_;
};

}  // namespace maglev::verbs::prove
