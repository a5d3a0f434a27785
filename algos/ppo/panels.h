#pragma once
// PPO's work on the CPU where the networks are fully connected: acting, values and gradients, a
// panel of rows at a time on fused kernels. The same figures as the networks give through ATen.
//
// Threads: rows and minibatches are cut into panels, and panels are dealt to lanes, from sizes
// alone; each lane adds into gradients of its own.

#include <atomic>
#include <memory>
#include <vector>

#include "algos/ppo/options.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/panel_network.h"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev::ppo {

/// Columns of the whole rollout a minibatch picks from, flattened to [T * rows].
struct LossColumns {
  const float *old_log_prob, *advantage, *target, *old_value, *valid;

  /// Has the processor fetch rows `index`.
  void fetch(const int64_t* index, int64_t rows) const;
};

class Panels {
 public:
  /// Whether networks may and can run on panels: on the CPU, in f32, without convolutions.
  static bool suit(const Options& options, const AlgoContext& context, const ActorCritic& network);

  Panels(const ActorCritic& network, const FlatParams& params, const AlgoContext& context);

  /// Actions and, unless evaluating, log-probabilities of up to any number of rows. The value needs
  /// no answer before the rollout ends: see values.
  void act(TimeStep& step, ActMode mode, const ActKey& key, at::Tensor* log_prob);
  /// Values of all rows of a rollout, [T+1, rows] f32, in the reward's units.
  void values(const Batch& batch, at::Tensor& value);
  /// Writes gradients and figures of rows `index` [B] into lanes: panel p goes to lane p % lanes.
  ///   grads [lanes, P] f32, figures [lanes, kPpoFigures] f64
  void learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
             const PpoLossSettings& settings, const PpoLossScalars& scalars, at::Tensor& grads,
             at::Tensor& figures);

 private:
  class Borrowed;

  PolicyPanel policy(const PanelNetwork::Panel& panel, const uint8_t* mask) const;

  ActionSpec action_;
  const float* log_std_ = nullptr;  ///< null for categorical actions
  int64_t log_std_at_ = 0;          ///< in the flat buffer
  ThreadPool* pool_;
  PanelNetwork panels_;
  std::vector<PanelNetwork::Panel> memory_;  ///< one a thread
  std::vector<std::atomic<bool>> taken_;
  std::vector<PanelNetwork::Gradients> gradients_;
};

}  // namespace maglev::ppo
