#pragma once
// What an update of Dreamer changes, whichever code makes it.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/networks.h"
#include "algos/dreamer/options.h"
#include "engine/data/state.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/laprop.h"

namespace maglev::dreamer {

/// Figures of an update, in this order.
enum Figure {
  kObservation,  ///< reconstruction or redundancy
  kReward,
  kContinue,
  kDynamics,        ///< divergence of the states where above the free nats
  kRepresentation,  ///< likewise
  kPolicy,
  kValue,
  kReplayValue,
  kTotal,
  kGradNorm,
  kDivergence,  ///< of posterior and prior, all of it
  kEntropy,     ///< of the policy
  kReturn,      ///< mean of the imagined returns
  kRange,       ///< what they are divided by
  kFigures
};
/// Their names in the metrics.
std::vector<std::string> figure_names(Objective objective);

struct LearnerState {
  LearnerState(const Options& options, const ModelShape& shape, uint64_t seed, at::Device device);

  std::shared_ptr<Networks> networks;
  FlatParams params;                 ///< of the networks, [P] f32
  at::Tensor grad;                   ///< [P] f32
  std::shared_ptr<Head> slow_value;  ///< follows networks->value
  FlatParams slow_params;            ///< of it
  FlatLaProp optimizer;
  at::Tensor lr, skip;  ///< scalars f32: this update's learning rate, and 0
  at::Tensor range;     ///< [2] f32: running 5th and 95th percentile of imagined returns
  at::Tensor updates;   ///< scalar i64, updates made

  /// The slow value network is the online one.
  void begin_slow_value();
  /// The learning rate of the update that begins: from 0 to `lr` in `warmup` updates.
  void set_learning_rate(double rate, int64_t warmup);
  /// The slow value network follows by a share of `rate`; the counter counts.
  void finish_update(double rate);
  void visit(StateVisitor& visitor);

 private:
  /// Those of networks->value, as slow_params lays them.
  at::Tensor online_value() const;
};

}  // namespace maglev::dreamer
