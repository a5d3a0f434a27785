#pragma once
// PPO's policy: the networks, and how actions are drawn from what they give. All that playing
// needs; no gradients, no optimiser.
//
// Threads: any number may be in act. publish() runs alone.

#include <memory>
#include <vector>

#include "algos/ppo/options.h"
#include "algos/ppo/panels.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/flat_params.h"

namespace maglev::ppo {

/// What the networks are made for.
NetworkContext network_context(const AlgoContext& context);

class PpoPolicy : public Policy {
 public:
  /// Throws Error when the observations cannot feed the network.
  PpoPolicy(const Options& options, const AlgoContext& context);

  /// Writes actions and, where the row has columns for them, log-probabilities and values in the
  /// reward's units; on panels values, or what is left of them, are left to the learner.
  void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) override;
  /// What the network remembers, [rows, memory_size()] f32; else nothing.
  Carry initial_carry(int64_t rows) const override;
  std::vector<std::string> carry_names() const override;
  /// Undefined where the network remembers: a step alone does not say.
  at::Tensor log_probs(const TimeStep& step) override;
  /// None where the network remembers.
  std::optional<Normals> normals(const TimeStep& step) override;
  std::optional<Explanation> explain(const ActedStep& acted, std::optional<Asked> asked) override;
  /// Of categories their log_probs, else mean and log_std. The value too, unless its inputs are
  /// shown to critics alone.
  std::optional<StepOutputs> evaluate(const StepInputs& inputs) override;
  int64_t block_rows() const override { return block_rows_; }
  bool capturable() const override { return device_.is_cuda(); }
  std::string temperature_obstacle() const override { return ""; }

  /// Parameters, running statistics and the value head's units.
  void visit_state(StateVisitor& visitor) override;
  void publish() override { round_weights(); }
  /// The parameters have changed: what is rounded of them follows.
  void round_weights();

  /// Values of the row behind a rollout, of environments [begin, begin + count): [count] f32 in the
  /// reward's units.
  at::Tensor last_value(const Batch& batch, int64_t begin, int64_t count) const;
  /// What `network`, these networks or a replica, gives in the run's precision, as f32. `recall`:
  /// where it remembers, of these rows.
  NetworkOutput forward(ActorCritic& network, const std::vector<at::Tensor>& obs,
                        ActorCritic::Want want, Recall* recall = nullptr) const;
  bool remembers() const { return network_->memory_size() > 0; }
  /// Networks that read these parameters and add their gradients into `grad` [P] f32.
  std::shared_ptr<ActorCritic> replica(const at::Tensor& grad) const;

  ActorCritic& network() const { return *network_; }
  const FlatParams& params() const { return *params_; }
  /// Null where the networks cannot run on panels, or may not.
  Panels* panels() const { return panels_.get(); }

 private:
  NetworkOptions options_;
  NetworkContext network_context_;
  at::Device device_;
  Precision precision_;
  bool fused_;
  int64_t block_rows_;
  std::shared_ptr<ActorCritic> network_;
  std::string computes_;  ///< NetworkEntry::computes; empty: its settings say it
  std::unique_ptr<FlatParams> params_;
  std::unique_ptr<Panels> panels_;
};

}  // namespace maglev::ppo
