#pragma once
// Policy and value networks over encoded observations: one trunk for both or a trunk each, a
// critic that may see more, a memory behind each trunk where one is asked for, heads. What a network
// brings is how a trunk is made.

#include <memory>

#include "base/env/spec.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/cell.h"
#include "engine/nn/network.h"
#include "engine/nn/obs_encoder.h"
#include "engine/nn/trunk.h"

namespace maglev {

class TrunkNetwork : public ActorCritic {
 public:
  TrunkNetwork(const EnvSpec& spec, const NetworkOptions& options, Initializer init,
               const MakeTrunk& make);

  NetworkOutput forward(const std::vector<at::Tensor>& columns, Want want) override;
  int64_t memory_size() const override;
  NetworkOutput forward_through(const std::vector<at::Tensor>& columns, Want want,
                                Recall& recall) override;
  std::optional<EncodedObs> encode(const std::vector<at::Tensor>& columns) const override {
    return encoder_->forward(columns, /*want_privileged=*/true);
  }
  NetworkOutput look(const EncodedObs& seen, std::vector<LayerOutput>* layers,
                     Recall* recall) override;
  ValueHead& value_head() const override { return *value_head_; }
  at::Tensor log_std() const override { return log_std_; }
  void absorb(const std::vector<at::Tensor>& columns, const at::Tensor& is_first, int64_t T,
              Group* group) override;
  RowCost cost() const override;
  std::string note() const override { return policy_trunk_->note(); }
  std::vector<std::string> output_layers() const override {
    return {"policy_weight", "value_head"};
  }
  std::string part_of(const std::string& parameter) const override;
  std::optional<DenseStacks> dense() const override;
  bool rounds_weights() const override { return policy_trunk_->rounds_weights(); }
  void round_weights() override;
  void share_rounded(const ActorCritic& original) override;

 private:
  /// What the layers give on the way is added to these, where not null.
  struct Notes {
    std::vector<at::Tensor>*policy = nullptr, *value = nullptr;
  };
  /// `recall`: where it remembers, else null.
  NetworkOutput outputs(const EncodedObs& seen, Want want, Notes notes, Recall* recall) const;
  /// What `cell` remembers behind each step of a trunk's features; its numbers of the state are
  /// those from `begin` on, and the newest go into `next`.
  static at::Tensor remembered(const Cell& cell, const at::Tensor& features, const Recall& recall,
                               int64_t begin, std::vector<at::Tensor>& next);
  /// The policy's logits of its features.
  at::Tensor logits(const at::Tensor& features) const;
  /// The value of a trunk's features, shared or its own.
  at::Tensor value(const at::Tensor& features, const at::Tensor& privileged,
                   std::vector<at::Tensor>* notes) const;

  std::shared_ptr<ObsEncoder> encoder_;
  std::shared_ptr<Trunk> policy_trunk_, value_trunk_;  ///< value_trunk_ null when shared
  std::shared_ptr<Cell> policy_cell_, value_cell_;     ///< null without a memory; as the trunks
  std::shared_ptr<DenseTrunk> critic_;
  at::Tensor policy_weight_, policy_bias_, log_std_;
  std::shared_ptr<ValueHead> value_head_;
};

}  // namespace maglev
