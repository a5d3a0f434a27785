#pragma once
// TD-MPC2 (Hansen, Su and Wang, "TD-MPC2: scalable, robust world models for continuous control",
// ICLR 2024): a latent world model learnt from replayed sequences, and planning in it.
//
// Threads: act reads only the copy of the weights that publish() left, so any number of threads may
// be in it, also beside update.

#include <memory>
#include <vector>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/options.h"
#include "algos/tdmpc2/planner.h"
#include "engine/algo/algorithm.h"

namespace maglev::tdmpc2 {

class Tdmpc2 : public Algorithm {
 public:
  /// Throws Error when settings contradict each other or the environment.
  Tdmpc2(const Options& options, const AlgoContext& context);

  const DataPlan& plan() const override { return plan_; }
  /// The mean of each row's last plan, [rows, H, A] f32.
  Carry initial_carry(int64_t rows) const override;
  /// Acts at random until the seed steps are made (mode sample, purpose act), then by planning or
  /// by the policy. Mode sample explores, mode mean does not.
  void act(Row& row, Carry& carry, ActMode mode, const ActKey& key) override;
  void update(const Batch& batch, Metrics& metrics) override;
  void publish() override;
  void visit_state(StateVisitor& visitor) override;

  /// What act sees of a row, as the planners take it.
  PlanRequest request(const Row& row, const Carry& carry, ActMode mode, const ActKey& key) const;
  Sequences sequences(const Batch& batch) const;
  LearnerState& state() { return state_; }
  const PlanOptions& plan_settings() const { return plan_options_; }
  /// Figures of the last update, [kFigures] f32.
  const at::Tensor& figures() const { return figures_; }

 private:
  /// Indices of the columns the model sees.
  struct Columns {
    std::vector<size_t> vectors;
    int64_t image = -1, task = -1;
  };

  std::unique_ptr<Planner> make_planner(bool panels) const;
  at::Tensor tasks_of(const std::vector<at::Tensor>& obs) const;
  at::Tensor masked(const at::Tensor& action, const at::Tensor& task) const;
  /// Uniform actions [N, A] in [-1, 1], or normals.
  at::Tensor drawn(const PlanRequest& request, bool uniform) const;
  at::Tensor policy_action(const PlanRequest& request, ActMode mode) const;

  Options options_;
  AlgoContext context_;
  ModelShape shape_;
  DataPlan plan_;
  PlanOptions plan_options_;
  PlanNumbers numbers_;
  int64_t seed_steps_;
  Columns columns_;
  at::Tensor middle_, half_;  ///< [A] f32: environment's actions are middle + half * model's

  LearnerState state_;
  std::unique_ptr<Learner> learner_;
  std::shared_ptr<WorldModel> acting_;  ///< what publish() left
  FlatParams acting_params_;
  std::unique_ptr<Planner> planner_;  ///< null where the policy acts by itself
  at::Tensor figures_, one_;
  int64_t first_metric_ = -1;
};

/// Whether a processor plans with the engine's own kernels.
bool plans_on_panels(const Options& options, const ModelShape& shape, const AlgoContext& context);

/// The plan of such an algorithm.
DataPlan data_plan(const Options& options, const AlgoContext& context);

}  // namespace maglev::tdmpc2
