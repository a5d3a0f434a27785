#pragma once
// PPO fast: what ReferenceLearner computes, on fused kernels and all threads, without a tensor made
// or a byte asked of the heap where networks run on panels.
//
// Threads: a minibatch is cut into shards of fixed size and shards are dealt to a fixed number of
// lanes; each lane has gradients of its own, and lanes are added in order. So a run does not depend
// on how many threads there are, and memory for activations is that of one shard a thread.

#include <memory>
#include <vector>

#include "algos/ppo/learner.h"
#include "engine/algo/micro_batch.h"
#include "kernels/ppo_loss/ppo_scalars_op.h"

namespace maglev::ppo {

class FusedLearner : public Learner {
 public:
  FusedLearner(const Options& options, const AlgoContext& context, PpoPolicy& policy,
               LearnerState& state);

  void update(const Batch& batch, Metrics& metrics) override;
  void prepare(const Batch& batch) override;
  void minibatch_step(const Batch& batch, const at::Tensor& index) override;
  void finish(const Batch& batch) override;
  Results results() const override;
  std::string note() const override { return micro_batch_.note(); }

 private:
  /// A replica of the networks; views of its gradient and of its shards' figures.
  struct Lane {
    std::shared_ptr<ActorCritic> network;
    at::Tensor grad, figures;
  };
  /// Gradients and figures of the first 1, 2, ... lanes: views made once.
  struct Lanes {
    at::Tensor grads, figures;
  };

  void build_lanes();
  /// Values of the rollout's rows that act left out.
  void find_values(const Batch& batch, at::Tensor value);
  /// Returns and values in the value head's units.
  void normalize_targets(const at::Tensor& value);
  /// `column` of all processes, one behind the other.
  at::Tensor of_all(const at::Tensor& column) const;
  /// A random order of the rollout's rows, or sequences: number `epoch` of this update.
  void shuffle(int64_t epoch);
  void step_and_report(const Batch& batch, const at::Tensor& index, Metrics& metrics);
  /// Figures of the update; counts its epochs.
  void report_update(Metrics& metrics);
  /// Gradients and figures of a minibatch into the first lanes, by panels or by autograd.
  void learn_panels(const Batch& batch, const at::Tensor& index, Lanes& lanes);
  void learn_shards(const Batch& batch, const at::Tensor& index, int64_t rows, Lanes& lanes);
  /// Those that shards of so many rows of a minibatch are added in.
  Lanes& lanes_of(int64_t minibatch);
  void learn_shard(const Batch& batch, Lane& lane, const at::Tensor& given);

  const Options options_;
  const AlgoContext context_;
  PpoPolicy& policy_;
  LearnerState& state_;
  const int64_t rollout_rows_, minibatch_, block_rows_, sequence_;
  MicroBatch micro_batch_;  ///< rows of a shard, in whole sequences; a panel's stay what they are
  const PpoLossSettings loss_settings_;
  PpoNumbers numbers_;
  PpoSchedules schedules_;

  at::Tensor lane_grads_, lane_figures_;  ///< [lanes, P] f32, [lanes, kPpoFigures] f64
  std::vector<Lane> lanes_;               ///< none on panels
  std::vector<Lanes> first_lanes_;
  at::Tensor permutation_;               ///< [T * rows / L] i64, of sequences of L steps
  at::Tensor order_;                     ///< [T * rows] i64, the rows of these
  std::vector<at::Tensor> minibatches_;  ///< of it, views made once

  PpoState device_;                              ///< scalars of this update and minibatch
  at::Tensor advantage_mean_, advantage_scale_;  ///< views of device_.statistics
  at::Tensor advantage_, returns_, valid_;       ///< [T, rows] f32
  at::Tensor target_, old_value_;                ///< [T, rows] f32, units of the value head
  at::Tensor explained_;                         ///< scalar f32
  at::Tensor error_, scratch_;  ///< f32 like targets of all processes, and partial sums
  at::Tensor all_rows_;         ///< [rows of a minibatch, of all processes] i64: 0, 1, ..
  int64_t first_metric_ = -1;
};

}  // namespace maglev::ppo
