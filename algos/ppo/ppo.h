#pragma once
// Proximal policy optimisation with a clipped surrogate (Schulman et al., "Proximal policy
// optimization algorithms", 2017).
//
// Threads: a minibatch is cut into shards of fixed size and shards are dealt to a fixed number of
// lanes; each lane is a replica of the networks with gradients of its own, and lanes are added in
// order. So a run does not depend on how many threads there are, and memory for activations is that
// of one shard a thread.

#include <memory>
#include <vector>

#include "algos/ppo/options.h"
#include "algos/ppo/policy.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/autocast.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/optimizer.h"
#include "kernels/ppo_scalars/ppo_scalars_op.h"

namespace maglev::ppo {

class Ppo : public Algorithm {
 public:
  /// Throws Error when settings contradict: a minibatch larger than the rollout, a network the
  /// observation cannot feed.
  Ppo(const Options& options, const AlgoContext& context);

  const DataPlan& plan() const override { return plan_; }
  Policy& policy() override { return policy_; }
  void update(const Batch& batch, Metrics& metrics) override;
  void visit_state(StateVisitor& visitor) override;

  // The stages of update, in order; a test may drive them with a batch and index lists of its own.

  /// Bootstrap values, reward scaling, advantages, returns, value-head statistics, schedules of
  /// this update.
  void prepare(const Batch& batch);
  /// One optimiser step on rows `index` [B] i64 of the flattened rollout (t * rows + row). Rows
  /// that only reset an environment count nothing.
  void minibatch_step(const Batch& batch, const at::Tensor& index);
  /// Observation statistics and counters, once all epochs are done.
  void finish(const Batch& batch);

  /// Figures of the last minibatch_step, [kPpoFigures] f32.
  const at::Tensor& figures() const { return state_.figures; }
  /// 1 once target_kl ended this update, else 0; device scalar f32.
  const at::Tensor& stopped() const { return state_.stop; }
  /// 1 - Var(returns - values) / Var(returns) of the rollout, device scalar f32; NaN when returns
  /// are constant.
  const at::Tensor& explained_variance();

  /// L2 norm of the last minibatch_step's gradient before clipping, device scalar f32.
  const at::Tensor& grad_norm() const { return optimizer_->norm(); }
  const at::Tensor& advantage() const { return advantage_; }  ///< [T, rows] f32
  const at::Tensor& returns() const { return returns_; }      ///< [T, rows] f32, raw units
  ActorCritic& network() { return *network_; }
  const FlatParams& params() const { return *params_; }

 private:
  struct Lane {
    std::shared_ptr<ActorCritic> network;
    at::Tensor grad;     ///< [P] f32
    at::Tensor figures;  ///< [kPpoFigures] f64, sums over the lane's shards
  };

  void build_lanes();
  /// Values [rows] of the row behind the rollout.
  void bootstrap(const Batch& batch, at::Tensor value);
  /// Views of the optimiser's moments that belong to the value head.
  ValueHead::AdamMoments head_moments();
  /// Returns and values in the value head's units.
  void normalize_targets(const at::Tensor& value);
  /// A random order of the rollout's rows: number `epoch` of this update.
  void shuffle(int64_t epoch);
  void report_minibatch(Metrics& metrics, float weight) const;
  /// Partial statistics of a column over valid rows among `index`, or the first `count`. CPU.
  AdvantagePartial* partials(const at::Tensor& column, const int64_t* index, int64_t count);
  void minibatch_statistics(const at::Tensor& index);
  /// Adds one shard's gradients and figures to a lane, through autograd.
  void learn_shard(const Batch& batch, Lane& lane, const at::Tensor& index);

  Options options_;
  AlgoContext context_;
  DataPlan plan_;
  int64_t batch_rows_, minibatch_, shard_rows_;

  PpoPolicy policy_;
  // the policy's, and null where it has no panels
  std::shared_ptr<ActorCritic> network_;
  FlatParams* params_;
  Panels* panels_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<LossScale> loss_scale_;
  std::shared_ptr<RewardNorm> reward_norm_;  ///< null unless normalize_reward
  /// Views made once: gradients and figures of the first 1, 2, ... lanes; of each minibatch its
  /// rows.
  struct Lanes {
    at::Tensor grads, figures;
  };
  std::vector<Lanes> first_lanes_;
  std::vector<at::Tensor> minibatches_;
  at::Tensor lane_grads_, lane_figures_;  ///< [lanes, P] f32, [lanes, kPpoFigures] f64
  std::vector<Lane> lanes_;
  std::vector<AdvantagePartial> advantage_partials_;

  at::Tensor advantage_, returns_, valid_;  ///< [T, rows] f32
  at::Tensor target_, old_value_;           ///< [T, rows] f32, units of the value head
  at::Tensor error_, explained_;            ///< [T, rows] f32, scalar: of explained_variance
  at::Tensor permutation_;                  ///< [T * rows] i64
  PpoState state_;
  PpoSchedules schedules_;
  PpoNumbers numbers_;
  at::Tensor epochs_done_;  ///< device scalar i64: numbers permutations
  int64_t first_metric_ = -1;
};

}  // namespace maglev::ppo
