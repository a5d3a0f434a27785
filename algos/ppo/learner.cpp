#include "algos/ppo/learner.h"

#include <ATen/ATen.h>

#include "engine/nn/muon.h"

namespace maglev::ppo {
namespace {

std::unique_ptr<Optimizer> make_optimizer(const Options& options, const PpoPolicy& policy) {
  const AdamOptions adam{.eps = options.adam_eps,
                         .weight_decay = options.weight_decay,
                         .max_grad_norm = options.max_grad_norm,
                         .clip_per_module = options.clip_grad == ClipGrad::per_module,
                         .fused = options.fused};
  if (options.optimizer == OptimizerKind::muon)
    return std::make_unique<FlatMuon>(
        policy.params(), policy.network(), adam,
        MuonOptions{.adam_modules = policy.network().output_layers()});
  return std::make_unique<FlatAdam>(policy.params(), adam);
}

}  // namespace

LearnerState::LearnerState(const Options& options, const AlgoContext& context, PpoPolicy& policy)
    : optimizer(make_optimizer(options, policy)),
      loss_scale(context.precision == Precision::fp16, context.device),
      scales_(context.precision == Precision::fp16) {
  const auto f32 = at::TensorOptions(at::kFloat).device(context.device);
  // before the first minibatch no floor is undercut
  last_entropy = at::full({}, 1e9, f32);
  steps_done = at::zeros({}, f32.dtype(at::kDouble));
  epochs_done = at::zeros({}, f32.dtype(at::kLong));
  if (options.normalize_reward) {
    reward_norm = std::make_shared<RewardNorm>(context.rows * context.processes, options.gamma);
    reward_norm->to(context.device);
  }

  // where the value head's parameters lie
  const ValueHead& head = policy.network().value_head();
  head_count_ = head.weight().numel() + head.bias().numel();
  const auto parameters = policy.network().parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].is_same(head.weight())) head_begin_ = policy.params().ranges()[i].begin;
}

at::Tensor LearnerState::scaled_reward(const Batch& batch, const at::Tensor& valid, Group* group) {
  const at::Tensor done = at::bitwise_or(batch.terminated, batch.truncated);
  const at::Tensor all = reward_norm->absorb(gathered(group, batch.reward, 1),
                                             gathered(group, done, 1), gathered(group, valid, 1));
  const int64_t rows = batch.reward.size(1);
  return all.narrow(1, rank_of(group) * rows, rows).contiguous();
}

ValueHead::AdamMoments LearnerState::head_moments() const {
  return {optimizer->first_moment().narrow(0, head_begin_, head_count_),
          optimizer->second_moment().narrow(0, head_begin_, head_count_)};
}

void LearnerState::visit(StateVisitor& visitor) {
  visitor.section("optimizer", [&](StateVisitor& v) { optimizer->visit_state(v); });
  if (scales_) visitor.section("loss_scale", [&](StateVisitor& v) { loss_scale.visit_state(v); });
  if (reward_norm)
    visitor.section("reward_norm", [&](StateVisitor& v) { visit_module(*reward_norm, v); });
  visitor.tensor("last_entropy", last_entropy);
  visitor.tensor("steps_done", steps_done);
  visitor.tensor("epochs_done", epochs_done);
}

at::Tensor rows_of_sequences(const at::Tensor& sequences, int64_t L, int64_t R) {
  const auto begin = sequences.div(R, "floor").mul_(L * R).add_(sequences.remainder(R));
  const auto step = at::arange(L, sequences.options()).mul_(R);
  return (begin.unsqueeze(1) + step).flatten();
}

SequenceRows time_first(const Batch& batch, const at::Tensor& index, int64_t L) {
  const bool remembers = batch.extra.size() > size_t(memory_column);
  if (!remembers) return {.index = index, .recall = {}};
  const auto by_sequence = index.view({-1, L});
  SequenceRows rows{.index = by_sequence.t().contiguous().flatten(), .recall = {}};
  const auto states = batch.extra[memory_column].flatten(0, 1);
  rows.recall.state = states.index_select(0, by_sequence.select(1, 0));
  rows.recall.is_first =
      batch.is_first.flatten(0, 1).index_select(0, rows.index).view({L, by_sequence.size(0)});
  return rows;
}

PpoLossSettings loss_settings(const Options& options) {
  return {.value_coef = float(options.value_coef),
          .clips_value = options.value_clip > 0,
          .value_clip_max = options.value_clip_loss == ValueClipLoss::max};
}

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names{"loss/policy",          "loss/value",
                                              "loss/entropy",         "loss/approx_kl",
                                              "loss/clip_fraction",   "loss/ratio_deviation",
                                              "loss/total",           "loss/grad_norm",
                                              "loss/learning_rate",   "loss/explained_variance",
                                              "loss/nonfinite_steps", "loss/scale"};
  return names;
}

}  // namespace maglev::ppo
