#pragma once
// What acts in TD-MPC2: the world model as it was published, and a planner or the policy prior in
// it. No target networks and nothing of an optimiser.
//
// Threads: any number may be in act. publish() runs alone.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/options.h"
#include "algos/tdmpc2/planner.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/flat_params.h"

namespace maglev::tdmpc2 {

/// Rows act gets at once.
int64_t block_rows(const Options& options, const ModelShape& shape, const AlgoContext& context);

/// Whether acting and learning may be captured.
bool may_be_captured(const Options& options, at::Device device);

/// Whether a processor plans with the engine's own kernels.
bool plans_on_panels(const Options& options, const ModelShape& shape, const AlgoContext& context);

/// Whether the engine's kernels may be used where `obstacle` (empty: none) is what stands in their
/// way. Throws Error where tdmpc2.fused=on demands them and they cannot be.
bool use_fused(const Options& options, const std::string& obstacle);

/// What the model sees of an environment's columns, and what its actions in [-1, 1] mean there.
class Columns {
 public:
  /// Throws Error where tasks have no column, or an action has no bounds.
  Columns(const EnvSpec& spec, const ModelShape& shape, at::Device device);

  /// Task of each row, of columns [rows, ...] or [L, rows, ...]: [..., rows] i64; undefined without
  /// tasks.
  at::Tensor task(const std::vector<at::Tensor>& obs) const;
  /// The image, or the vectors side by side; `lead` dimensions are rows and times.
  at::Tensor seen(const std::vector<at::Tensor>& obs, int64_t lead) const;

  at::Tensor to_environment(const at::Tensor& action) const { return middle_ + half_ * action; }
  at::Tensor to_model(const at::Tensor& action) const;

 private:
  std::vector<size_t> vectors_;
  int64_t image_ = -1, task_ = -1;
  at::Tensor middle_, half_;  ///< [A] f32
};

class Tdmpc2Policy : public Policy {
 public:
  /// `weights`: what the model has until something is published. Throws Error when settings
  /// contradict each other or the environment.
  Tdmpc2Policy(const Options& options, const AlgoContext& context, Initializer weights);

  int64_t block_rows() const override { return block_rows_; }
  bool capturable() const override { return capturable_; }
  /// The policy prior's draws take a temperature, plans do not.
  std::string temperature_obstacle() const override;
  /// The mean of each row's last plan, [rows, H, A] f32.
  Carry initial_carry(int64_t rows) const override;
  /// Acts at random until the seed steps are made (mode sample, purpose act), then by planning or
  /// by the policy prior. Mode sample explores, mode mean does not.
  void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) override;
  /// The policy prior's mean, of an image that is not moved, and of its Gaussian, before tanh and
  /// the environment's bounds, mean and log_std. No planning.
  std::optional<StepOutputs> evaluate(const StepInputs& inputs) override;
  /// The policy prior's mean, and the mean of all value networks at the action that was taken.
  std::optional<Explanation> explain(const ActedStep& acted, std::optional<Asked> asked) override;
  void visit_state(StateVisitor& visitor) override;
  void publish() override;
  /// Acts from now on by `params` [P] f32, laid out as the model's.
  void publish(const at::Tensor& params);

  const ModelShape& shape() const { return shape_; }
  const Columns& columns() const { return columns_; }
  const PlanOptions& plan_settings() const { return plan_options_; }

 private:
  /// What act sees of a row, as the planners take it.
  PlanRequest request(const TimeStep& step, const Carry& carry, ActMode mode,
                      const ActKey& key) const;
  at::Tensor masked(const at::Tensor& action, const at::Tensor& task) const;
  /// Uniform actions [N, A] in [-1, 1], or normals.
  at::Tensor drawn(const PlanRequest& request, bool uniform) const;
  /// Null unless options.mpc.
  std::unique_ptr<Planner> made_planner(const Options& options) const;
  at::Tensor prior_action(const PlanRequest& request, ActMode mode) const;

  AlgoContext context_;
  ModelShape shape_;
  PlanOptions plan_options_;
  PlanNumbers numbers_;
  int64_t block_rows_, run_rows_, seed_steps_;  ///< run_rows_: of all processes
  bool capturable_;
  Columns columns_;
  std::shared_ptr<WorldModel> model_;
  FlatParams params_;
  std::unique_ptr<Planner> planner_;  ///< null where the policy prior acts by itself
};

}  // namespace maglev::tdmpc2
