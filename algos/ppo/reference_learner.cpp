#include "algos/ppo/reference_learner.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/ppo/sizes.h"
#include "base/trace/span.h"
#include "kernels/advantage/advantage_op.h"
#include "kernels/gae/gae_op.h"
#include "kernels/philox/philox_op.h"
#include "kernels/ppo_loss/ppo_loss_reference_op.h"

namespace maglev::ppo {
namespace {

// of all processes
at::Tensor sum_of(const at::Tensor& values, Group* group) {
  const at::Tensor sum = values.sum();
  if (group) group->sum(sum);
  return sum;
}

// advantages to mean 0 and deviation 1 over the rows that count
at::Tensor standardized(const at::Tensor& advantage, const at::Tensor& valid, Group* group) {
  const auto count = sum_of(valid, group).clamp_min(1);
  const auto mean = sum_of(advantage * valid, group) / count;
  const auto centred = (advantage - mean) * valid;
  const auto std = at::sqrt(sum_of(centred.square(), group) / (count - 1).clamp_min(1));
  return centred / (std + 1e-8);
}

}  // namespace

ReferenceLearner::ReferenceLearner(const Options& options, const AlgoContext& context,
                                   PpoPolicy& policy, LearnerState& state)
    : options_(options),
      context_(context),
      policy_(policy),
      state_(state),
      minibatch_(minibatch_rows(options, context)),
      grad_(at::zeros_like(policy.params().data())),
      network_(policy.replica(grad_)) {}

void ReferenceLearner::update(const Batch& batch, Metrics& metrics) {
  at::NoGradGuard no_grad;
  if (first_metric_ < 0) first_metric_ = metrics.declare(metric_names());
  const int64_t rows = batch.reward.numel();
  const int64_t L = options_.sequence_steps();
  auto order = at::empty({rows / L}, batch.reward.options().dtype(at::kLong));

  // schedules, advantages and targets; then epochs of minibatches
  prepare(batch);
  for (int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
    // each epoch sees the rollout's rows, or its sequences, in another order
    fill_permutation(order,
                     {.seed = context_.seed,
                      .counter = epoch + first_number(context_.group),
                      .n = rows / L,
                      .base = state_.epochs_done.const_data_ptr<int64_t>()},
                     0);
    const auto in_order = rows_of_sequences(order, L, context_.rows);
    for (int64_t begin = 0; begin < rows; begin += minibatch_) {
      // figures count until the update is over, and where a row counts
      const auto going_on = 1 - stop_;
      minibatch_step(batch, in_order.narrow(0, begin, std::min(minibatch_, rows - begin)));
      const auto counts = going_on * (valid_rows_ > 0).to(at::kFloat);
      metrics.add(first_metric_, figures_, counts);
      // a step that was left out is counted as such: its norm is none
      const auto& norm = state_.optimizer->norm();
      metrics.add(first_metric_ + kPpoFigures, norm.unsqueeze(0),
                  counts * at::isfinite(norm).to(at::kFloat));
      metrics.add(first_metric_ + kPpoFigures + 1, lr_.unsqueeze(0), counts);
    }
    if (epoch + 1 < options_.epochs) metrics.passed(epoch);
  }

  // what is told once an update; where targets do not vary there is nothing to explain
  const int64_t behind = first_metric_ + int64_t(metric_names().size()) - kUpdateFigures;
  metrics.add(behind, explained_variance_.unsqueeze(0),
              at::isfinite(explained_variance_).to(at::kFloat));
  metrics.add(behind + 1, at::stack({state_.optimizer->nonfinite(), state_.loss_scale.scale()}),
              at::ones_like(lr_));
  metrics.passed(options_.epochs - 1);
  state_.epochs_done.add_(options_.epochs);
  finish(batch);
}

void ReferenceLearner::prepare(const Batch& batch) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("advantages");
  const int64_t T = options_.rollout;

  // linear schedules over the rows of all updates, where this one begins
  const auto share = state_.steps_done / double(scheduled_rows(options_, context_));
  const auto scheduled = [&](double start, double end_share, double from = 0, double until = 1) {
    const auto progress = at::clamp((share - from) / (until - from), 0, 1);
    return (start * (1 + (end_share - 1) * progress)).to(at::kFloat);
  };
  const double until = options_.entropy_until;
  lr_ = scheduled(options_.lr, options_.lr_end);
  clip_ = scheduled(options_.clip, options_.clip_end);
  value_clip_ = scheduled(options_.value_clip, options_.value_clip_end);
  entropy_coef_ = scheduled(options_.entropy, options_.entropy_end, 0, until);
  entropy_floor_ = until < 1 ? scheduled(options_.entropy_floor, 0, until)
                             : scheduled(options_.entropy_floor, 1);
  state_.steps_done.add_(double(batch.reward.numel() * context_.processes));
  stop_ = at::zeros_like(lr_);

  // values of the rollout's rows; the row behind it bootstraps
  auto value = batch.extra[value_column];
  value[T].copy_(policy_.last_value(batch, 0, context_.rows));

  // a step whose next row begins an episode only reset its environment and counts nothing
  valid_ = 1 - batch.is_first.narrow(0, 1, T).to(at::kFloat);
  auto reward = batch.reward;
  if (state_.reward_norm) reward = state_.scaled_reward(batch, valid_, context_.group);

  // advantages by GAE; returns are what values should have been
  advantage_ = gae_reference(reward, value, batch.terminated, batch.is_first, options_.gamma,
                             options_.lambda);
  old_value_ = value.narrow(0, 0, T);
  returns_ = advantage_ + old_value_;
  if (options_.normalize_advantage == AdvantageNorm::batch)
    advantage_ = standardized(advantage_, valid_, context_.group);

  // both in the value head's units, which take in the returns first
  auto& head = policy_.network().value_head();
  const auto all = [&](const at::Tensor& column) {
    return gathered(context_.group, column.flatten());
  };
  head.absorb(all(returns_), all(valid_), state_.head_moments());
  target_ = head.normalize(returns_);
  old_value_ = head.normalize(old_value_);
  explained_variance_ = explained_variance_reference(all(target_), all(old_value_), all(valid_));
}

void ReferenceLearner::minibatch_step(const Batch& batch, const at::Tensor& given) {
  const auto span = trace::stage("minibatch");
  at::AutoGradMode with_grad(true);
  SequenceRows sequences = time_first(batch, given, options_.sequence_steps());
  const at::Tensor& index = sequences.index;
  const auto rows = [&](const at::Tensor& column) {
    return column.narrow(0, 0, options_.rollout).flatten(0, 1).index_select(0, index);
  };

  // the minibatch
  std::vector<at::Tensor> obs;
  for (const auto& o : batch.obs) obs.push_back(rows(o));
  PpoLossRows minibatch{.action = rows(batch.action),
                        .old_log_prob = rows(batch.extra[log_prob_column]),
                        .advantage = rows(advantage_),
                        .target = rows(target_),
                        .old_value = rows(old_value_),
                        .valid = rows(valid_)};
  if (batch.mask.defined()) minibatch.mask = rows(batch.mask);
  if (options_.normalize_advantage == AdvantageNorm::minibatch &&
      index.size(0) * context_.processes > 1)
    minibatch.advantage = standardized(minibatch.advantage, minibatch.valid, context_.group);

  // below its floor the entropy weighs more
  const auto penalty =
      options_.entropy_floor_penalty * (state_.last_entropy < entropy_floor_).to(at::kFloat);

  // loss and gradient
  const auto out =
      policy_.forward(*network_, obs, {.policy = true, .value = true}, &sequences.recall);
  const auto loss = ppo_loss_reference(context_.spec.action, out.logits, network_->log_std(),
                                       out.value, minibatch,
                                       {.clip = clip_,
                                        .value_clip = value_clip_,
                                        .entropy_coef = entropy_coef_ + penalty,
                                        .settings = loss_settings(options_)});
  // with other processes its means over rows that count are shares of the means over all of theirs
  valid_rows_ = sum_of(minibatch.valid, context_.group);
  at::Tensor share = at::ones_like(stop_);
  if (context_.group) share = minibatch.valid.sum() / valid_rows_.clamp_min(1);
  grad_.zero_();
  (loss.total * share * state_.loss_scale.scale()).backward();

  // past target_kl the update is over: this step and all behind it are left out
  at::NoGradGuard no_grad;
  figures_ = loss.figures().detach() * share;
  if (context_.group) context_.group->sum(figures_);
  state_.last_entropy.copy_(at::where(valid_rows_ > 0, figures_[kPpoEntropy], state_.last_entropy));
  if (options_.target_kl > 0)
    stop_ = at::maximum(stop_, (figures_[kPpoApproxKl] > 1.5 * options_.target_kl).to(at::kFloat));

  // clip and step
  reduce_all(*state_.optimizer, grad_, state_.loss_scale.unscale(), *context_.pool, context_.group);
  state_.optimizer->clip(/*skip=*/stop_);
  state_.loss_scale.adapt(state_.optimizer->norm());
  state_.optimizer->step(lr_, *context_.pool);
  policy_.network().round_weights();
}

void ReferenceLearner::finish(const Batch& batch) {
  at::NoGradGuard no_grad;
  policy_.network().absorb(batch.obs, batch.is_first, options_.rollout, context_.group);
}

Results ReferenceLearner::results() const {
  return {.advantage = advantage_,
          .returns = returns_,
          .explained_variance = explained_variance_,
          .figures = figures_,
          .grad_norm = state_.optimizer->norm(),
          .stopped = stop_};
}

}  // namespace maglev::ppo
