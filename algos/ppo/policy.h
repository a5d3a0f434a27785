#pragma once
// What acts in PPO: the actor-critic, whose values and log-probabilities a rollout keeps beside the
// actions.
//
// Threads: any number may be in act. publish() runs alone.

#include <memory>

#include "algos/ppo/options.h"
#include "algos/ppo/panels.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/flat_params.h"

namespace maglev::ppo {

/// Extra columns of a rollout.
enum Column { log_prob_column, value_column };

class PpoPolicy : public Policy {
 public:
  /// Throws Error on a network the observation cannot feed.
  PpoPolicy(const Options& options, const AlgoContext& context);

  int64_t block_rows() const override { return block_rows_; }
  void act(Row& row, Carry& carry, ActMode mode, const ActKey& key) override;
  void visit_state(StateVisitor& visitor) override;
  void publish() override { network_->round_weights(); }

  /// `network`, this one or a replica of it, in the run's precision; what it gives in f32.
  Evaluation forward(const ActorCritic& network, const std::vector<at::Tensor>& obs,
                     ActorCritic::Want want) const;

  const std::shared_ptr<ActorCritic>& network() { return network_; }
  FlatParams& params() { return *params_; }
  /// Null where the network cannot, or may not.
  Panels* panels() { return panels_.get(); }

 private:
  bool fused_;
  AlgoContext context_;
  std::shared_ptr<ActorCritic> network_;
  std::unique_ptr<FlatParams> params_;
  std::unique_ptr<Panels> panels_;
  int64_t block_rows_;
};

}  // namespace maglev::ppo
