#pragma once
// What an update of TD-MPC2 changes, whichever code makes it: parameters, targets, optimisers, the
// running scale and the number of updates made.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/world_model.h"
#include "engine/data/state.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/optimizer.h"

namespace maglev::tdmpc2 {

/// Figures of an update, in this order.
enum Figure {
  kConsistency,
  kReward,
  kValue,
  kTermination,
  kTotal,
  kGradNorm,
  kPolicy,
  kEntropy,  ///< of the policy, without the scaling
  kPolicyGradNorm,
  kScale,
  kQMean,   ///< of the policy's actions, before scaling
  kTarget,  ///< mean of the TD targets
  kFigures
};
/// Their names in the metrics.
const std::vector<std::string>& figure_names();

struct LearnerState {
  LearnerState(const Options& options, const ModelShape& shape, uint64_t seed, at::Device device);

  std::shared_ptr<WorldModel> model;
  FlatParams params;                 ///< of the model, [P] f32
  at::Tensor grad;                   ///< [P] f32
  at::Tensor target_q;               ///< [q_end - q_begin] f32, laid out as the value networks
  std::vector<FlatRange> q_ranges;   ///< of them
  FlatAdam model_adam, policy_adam;  ///< over [0, policy_begin) and [policy_begin, P)
  at::Tensor lr, skip;               ///< scalars f32: the learning rate, and 0
  at::Tensor scale;                  ///< scalar f32, running scale of values in the policy's loss
  at::Tensor updates;                ///< scalar i64, updates made

  /// Target networks are the online ones.
  void begin_targets();
  /// Target networks follow: target_q += tau * (online - target_q); embeddings longer than 1 are
  /// shortened to it; the counter counts.
  void finish_update(double tau, ThreadPool& pool);
  void visit(StateVisitor& visitor);
};

}  // namespace maglev::tdmpc2
