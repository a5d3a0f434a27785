#pragma once
// Panels on the CPU: 64 rows in one core's cache, from the observation to the last weight gradient.
//
// Threads: rows and minibatches are cut into shards, a panel or whole sequences, and these are dealt
// to lanes, from sizes alone; each lane adds into gradients of its own.

#include <atomic>
#include <vector>

#include "algos/ppo/panels.h"
#include "engine/nn/panel_network.h"
#include "engine/nn/panel_sequences.h"

namespace maglev::ppo {

class HostPanels : public Panels {
 public:
  HostPanels(const ActorCritic& network, const FlatParams& params, const AlgoContext& context);

  void round_weights() override { network_.round_weights(*pool_); }
  void reserve(const LearningSizes& sizes) override;
  void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) override;
  void values(const Batch& batch, at::Tensor& value) override;
  void learn(const Batch& batch, const at::Tensor& index, const LossColumns& columns,
             const PpoLossSettings& settings, const PpoLossScalars* scalars, at::Tensor& grads,
             at::Tensor& figures) override;

 private:
  class Borrowed;
  struct Minibatch;
  /// Whole sequences that are learned from together, in the memory of a lane.
  struct Shard {
    PanelSequences rows;
    std::vector<int64_t> index;  ///< of the rollout's rows, time first
  };

  PolicyPanel policy(const PanelNetwork::Panel& panel, const uint8_t* mask) const;
  bool remembers() const { return !network_.cells().empty(); }
  /// Takes the rows loaded through a cell for one step, from what is carried to what is carried on.
  ///   carried [rows][memory], is_first [rows]
  void step_cells(PanelSequences& rows, int64_t count, const uint8_t* is_first, float* carried,
                  bool value) const;
  /// Values of rows [first, first + count) behind the rollout.
  void last_values(const Batch& batch, int64_t first, int64_t count, float* value);
  /// Forward, loss and backward of a panel of rows that are loaded and, where the network remembers,
  /// gone through its cells.
  void learn_panel(const Minibatch& from, PanelSequences& rows, int64_t p, const int64_t* index,
                   int64_t lane);
  void learn_panels(const Minibatch& from);
  void learn_sequences(const Minibatch& from);
  /// Shard number `s` of the minibatch into the lane's memory, with what its cells begin with.
  void load_shard(const Minibatch& from, int64_t s, Shard& shard) const;

  ActionSpec action_;
  const float* log_std_ = nullptr;  ///< null for categorical actions
  int64_t log_std_at_ = 0;          ///< in the flat buffer
  ThreadPool* pool_;
  PanelNetwork network_;
  int64_t memory_size_;
  std::vector<PanelSequences> scratch_;  ///< of one panel, one a thread
  std::vector<std::atomic<bool>> taken_;
  LearningSizes sizes_{};
  std::vector<Shard> shards_;  ///< one a lane, where the network remembers
  std::vector<PanelNetwork::Gradients> gradients_;
};

}  // namespace maglev::ppo
