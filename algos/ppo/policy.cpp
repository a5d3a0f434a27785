#include "algos/ppo/policy.h"

#include <torch/torch.h>

#include "algos/ppo/sizes.h"
#include "engine/nn/autocast.h"
#include "kernels/policy/distribution_op.h"
#include "kernels/policy/policy_op.h"

namespace maglev::ppo {

PpoPolicy::PpoPolicy(const Options& options, const AlgoContext& context)
    : fused_(options.fused),
      context_(context),
      network_(std::make_shared<ActorCritic>(context.spec, network_options(options, context),
                                             Initializer(context.seed))) {
  network_->to(context.device);
  params_ = std::make_unique<FlatParams>(*network_);
  network_->round_weights();
  if (on_panels(options, context, *network_))
    panels_ = std::make_unique<Panels>(*network_, *params_, context);
  block_rows_ = ppo::block_rows(options, context, *network_);
}

Evaluation PpoPolicy::forward(const ActorCritic& network, const std::vector<at::Tensor>& obs,
                              ActorCritic::Want want) const {
  Evaluation out;
  {
    // a network that rounds its own weights needs no casts around it
    Autocast guard(network.rounds_weights() ? Precision::fp32 : context_.precision,
                   context_.device);
    out = network.forward(obs, want);
  }
  for (auto* part : {&out.logits, &out.value})
    if (part->defined()) *part = part->to(at::kFloat);
  return out;
}

void PpoPolicy::act(Row& row, Carry&, ActMode mode, const ActKey& key) {
  const bool learning = !row.extra.empty();
  if (panels_)
    return panels_->act(row, mode, key, learning ? &row.extra[log_prob_column] : nullptr);
  c10::InferenceMode guard;
  auto out = forward(*network_, row.obs, {.policy = true, .value = learning});
  const DistParams dist{out.logits, network_->log_std(), row.mask};
  auto draw = fused_ ? policy_sample : sample;
  auto log_prob = draw(context_.spec.action, dist, mode, key, row.first, row.action);
  if (!learning) return;
  row.extra[log_prob_column].copy_(log_prob);
  row.extra[value_column].copy_(network_->value_head().denormalize(out.value));
}

void PpoPolicy::visit_state(StateVisitor& visitor) {
  visitor.section("network", [&](StateVisitor& v) { visit_module(*network_, v); });
}

}  // namespace maglev::ppo
