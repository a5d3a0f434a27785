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

/// Whether a run takes bf16 and its processor multiplies pairs of them.
bool pairs_suit(const AlgoContext& context);

class Panels {
 public:
  virtual ~Panels() = default;
  /// Whether networks may and can run on panels: without convolutions, in f32 or, where a processor
  /// multiplies pairs of them, bf16; on a device in f32, no wider or deeper than its kernel takes.
  static bool suit(const Options& options, const AlgoContext& context, const ActorCritic& network);
  /// Those of the device of `context`, for networks that suit.
  static std::unique_ptr<Panels> make(const AlgoContext& context, const ActorCritic& network,
                                      const FlatParams& params);
  static PanelSizes sizes(at::Device device);

  /// The networks' parameters have changed; nobody runs.
  virtual void round_weights() = 0;
  /// As many rows may come at once. Before anything is captured: memory to work in moves.
  virtual void reserve(int64_t rows) = 0;

  /// Actions and, unless evaluating, log-probabilities of up to any number of rows. The value needs
  /// no answer before the rollout ends: see values.
  virtual void act(TimeStep& step, ActMode mode, const ActKey& key, at::Tensor* log_prob) = 0;
  /// Values of all rows of a rollout, [T+1, rows] f32, in the value head's units.
  virtual void values(const Batch& batch, at::Tensor& value) = 0;
  /// Writes gradients and figures of rows `index` [B] into lanes: panel p goes to lane p % lanes.
  /// `scalars` lie where the networks do.
  ///   grads [lanes, P] f32, figures [lanes, kPpoFigures] f64
  virtual void learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
                     const PpoLossSettings& settings, const PpoLossScalars* scalars,
                     at::Tensor& grads, at::Tensor& figures) = 0;
};

}  // namespace maglev::ppo
