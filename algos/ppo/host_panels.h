#pragma once
// Panels on the CPU: 64 rows in one core's cache, from the observation to the last weight gradient.
//
// Threads: rows and minibatches are cut into panels, and panels are dealt to lanes, from sizes
// alone; each lane adds into gradients of its own.

#include <atomic>
#include <vector>

#include "algos/ppo/panels.h"
#include "engine/nn/panel_network.h"

namespace maglev::ppo {

class HostPanels : public Panels {
 public:
  HostPanels(const ActorCritic& network, const FlatParams& params, const AlgoContext& context);

  void round_weights() override { panels_.round_weights(*pool_); }
  void reserve(int64_t) override {}  // a panel after another in memory of a panel
  void act(TimeStep& step, ActMode mode, const ActKey& key, at::Tensor* log_prob) override;
  void values(const Batch& batch, at::Tensor& value) override;
  void learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
             const PpoLossSettings& settings, const PpoLossScalars* scalars, at::Tensor& grads,
             at::Tensor& figures) override;

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
