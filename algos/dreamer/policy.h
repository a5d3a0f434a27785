#pragma once
// What acts in Dreamer: the encoder, the recurrent state of each row, and the policy of it. Nothing
// that only learning needs.
//
// Threads: any number may be in act. publish() runs alone.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/actions.h"
#include "algos/dreamer/networks.h"
#include "algos/dreamer/numbers.h"
#include "algos/dreamer/options.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/flat_params.h"

namespace maglev::dreamer {

/// Rows act gets at once.
int64_t block_rows(const AlgoContext& context);

/// Columns that act adds to a row, in this order: the states after the row was seen. Updates
/// compute them anew and the replay takes these back.
enum StateColumn { kDeterColumn, kStochColumn };
std::vector<ExtraColumn> state_columns(const ModelShape& shape);

class DreamerPolicy : public Policy {
 public:
  /// `weights`: what the networks have until something is published. Throws Error when settings
  /// contradict each other or the environment.
  DreamerPolicy(const Options& options, const AlgoContext& context, Initializer weights);

  int64_t block_rows() const override { return block_rows_; }
  bool capturable() const override { return params_.data().is_cuda(); }
  std::string temperature_obstacle() const override { return ""; }
  /// Of each row: h [D] f32, the categories of z [S] u8, and the action before [A] f32.
  Carry initial_carry(int64_t rows) const override;
  /// The states are drawn in both modes; mode mean takes the most likely action of them.
  void act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) override;
  /// log_probs of categories, else mean and log_std in the environment's units. No value: that is
  /// the learner's.
  std::optional<StepOutputs> evaluate(const StepInputs& inputs) override;
  std::vector<std::string> carry_names() const override { return {"deter", "stoch", "action"}; }
  /// What z is drawn by, [rows, S].
  at::Tensor mean_noise(int64_t first, int64_t rows, const ActKey& key) override;
  /// The action's distribution in the row's state, and that state's recurrent part h. No value:
  /// that is the learner's. Attributions go through what was seen at this step, with the
  /// probabilities of z in place of what was drawn of it: what came before stays in h.
  std::optional<Explanation> explain(const ActedStep& acted, std::optional<Asked> asked) override;
  void visit_state(StateVisitor& visitor) override;
  /// Acts from now on by the first of `params` [P] f32, laid out as Networks'.
  void publish(const at::Tensor& params);
  using Policy::publish;

  const ModelShape& shape() const { return shape_; }
  const Columns& columns() const { return columns_; }

 private:
  /// The state after rows were seen, behind what `carry` says of the steps before, its z drawn by
  /// `uniforms` [N, S]: also as categories [N, S] u8.
  struct Seen {
    Latent latent;
    at::Tensor category;
  };
  Seen seen(const std::vector<at::Tensor>& obs, const at::Tensor& is_first, const Carry& carry,
            const at::Tensor& uniforms) const;

  ActionSpec spec_;
  ModelShape shape_;
  Columns columns_;
  ActionDistribution actions_;
  ActNumbers numbers_;
  int64_t block_rows_;
  std::shared_ptr<ActingNetworks> networks_;
  FlatParams params_;
};

}  // namespace maglev::dreamer
