#pragma once
// PPO's work where the networks are fully connected: acting, values and gradients on fused kernels,
// a few rows at a time through all layers, without a tensor or a call of ATen. The same figures as
// the networks give through ATen.

#include <memory>

#include "algos/ppo/options.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/flat_params.h"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev::ppo {

/// What act adds to a row, in this order.
enum Column {
  log_prob_column,
  value_column,
  memory_column,  ///< what was remembered before the step, where the network remembers
};

/// Columns of the whole rollout a minibatch picks from, flattened to [T * rows].
struct LossColumns {
  const float *old_log_prob, *advantage, *target, *old_value, *valid;

  /// Has the processor fetch rows `index`.
  void fetch(const int64_t* index, int64_t rows) const;
};

/// How panels cut rows.
struct PanelSizes {
  int64_t rows;   ///< of a panel
  int64_t lanes;  ///< that gradients are added in, at most
};

/// How a learner will cut its work.
struct LearningSizes {
  int64_t rows;      ///< that come at once, at most
  int64_t sequence;  ///< steps of one; 1: the network remembers nothing
  int64_t shard;     ///< rows of whole sequences that go through the network together
  int64_t lanes;
};

/// Whether a run takes bf16 and its processor multiplies pairs of them.
bool pairs_suit(const AlgoContext& context);

class Panels {
 public:
  virtual ~Panels() = default;
  /// Whether networks may and can run on panels: without convolutions, in f32 or, where a processor
  /// multiplies pairs of them, bf16; on a device in f32, no wider or deeper than its kernel takes.
  /// Those that remember on a processor, in f32.
  static bool suit(const Options& options, const AlgoContext& context, const ActorCritic& network);
  /// Those of the device of `context`, for networks that suit.
  static std::unique_ptr<Panels> make(const AlgoContext& context, const ActorCritic& network,
                                      const FlatParams& params);
  static PanelSizes sizes(at::Device device);

  /// The networks' parameters have changed; nobody runs.
  virtual void round_weights() = 0;
  /// Memory to learn in, once. Before anything is captured: it moves.
  virtual void reserve(const LearningSizes& sizes) = 0;

  /// Writes actions, the carry and, while learning, log-probabilities; any number of rows.
  /// Recurrent networks also write values here (their value cell has to advance), in the value
  /// head's units; others leave them to values().
  virtual void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) = 0;
  /// What act left out, in the value head's units: all rows [T+1, rows] f32, or, of recurrent
  /// networks, the last row alone (bootstrap).
  virtual void values(const Batch& batch, at::Tensor& value) = 0;
  /// Writes gradients and figures of rows `index` [B], of whole sequences, into lanes: shard s goes
  /// to lane s % lanes. `scalars` lie where the networks do.
  ///   grads [lanes, P] f32, figures [lanes, kPpoFigures] f64
  virtual void learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
                     const PpoLossSettings& settings, const PpoLossScalars* scalars,
                     at::Tensor& grads, at::Tensor& figures) = 0;
};

}  // namespace maglev::ppo
