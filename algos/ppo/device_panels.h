#pragma once
// Panels on a CUDA device: a launch an answer, of as many blocks as there are panels of 32 rows or
// as the device holds at once (kernels/actor_critic).

#include "algos/ppo/panels.h"
#include "engine/nn/panel_network.h"
#include "kernels/actor_critic/actor_critic_op.h"

namespace maglev::ppo {

class DevicePanels : public Panels {
 public:
  /// Whether its layers, heads and dimensions are what the kernel takes.
  static bool suit(const ActorCritic& network, const EnvSpec& spec);

  /// For a time step's rows at once.
  DevicePanels(const AlgoContext& context, const ActorCritic& network, const FlatParams& params);

  void round_weights() override {}  // kernels read them as they are
  void reserve(const LearningSizes& sizes) override { reserve_rows(sizes.rows); }
  void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) override;
  void values(const Batch& batch, at::Tensor& value) override;
  void learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
             const PpoLossSettings& settings, const PpoLossScalars* scalars, at::Tensor& grads,
             at::Tensor& figures) override;

 private:
  /// As many rows may come at once.
  void reserve_rows(int64_t rows);
  /// The network over rows of these columns.
  ActorCriticArgs over(const std::vector<at::Tensor>& columns) const;
  PolicyPanel policy(const at::Tensor& mask, int64_t rows) const;

  at::Device device_;
  ActionSpec action_;
  const float* log_std_ = nullptr;  ///< null for categorical actions
  int64_t log_std_at_ = 0;          ///< in the flat buffer
  PanelNetwork network_;
  ActorCriticArgs args_;
  at::Tensor tiles_;  ///< undefined where a tile is shared memory
};

}  // namespace maglev::ppo
