#include "algos/ppo/fused_learner.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/ppo/sizes.h"
#include "base/trace/span.h"
#include "kernels/advantage/advantage_op.h"
#include "kernels/gae/gae_op.h"
#include "kernels/gather/gather_op.h"
#include "kernels/philox/philox_op.h"
#include "kernels/ppo_loss/ppo_loss_op.h"

namespace maglev::ppo {
namespace {

// rows of a permutation a thread writes at once: some 3 us of work
constexpr int64_t kShufflePart = 256;

at::Tensor flat(const at::Tensor& t) { return t.flatten(0, 1); }

// [T+1, rows, ...] or [T, rows, ...] -> [T * rows, ...] of the first T times
at::Tensor flat_steps(const at::Tensor& t, int64_t T) { return flat(t.narrow(0, 0, T)); }

// as long as the entropy's weight changes the floor does not
Schedule floor_schedule(const Options& options) {
  const double until = options.entropy_until;
  return until < 1 ? Schedule{options.entropy_floor, 0, until} : Schedule{options.entropy_floor, 1};
}

}  // namespace

FusedLearner::FusedLearner(const Options& options, const AlgoContext& context, PpoPolicy& policy,
                           LearnerState& state)
    : options_(options),
      context_(context),
      policy_(policy),
      state_(state),
      rollout_rows_(options.rollout * context.rows),
      minibatch_(minibatch_rows(options, context)),
      block_rows_(acting_rows(options, context, policy.network())),
      sequence_(options.sequence_steps()),
      micro_batch_(shard_rows(options, context, policy.network()), context.device, "rows",
                   [L = sequence_](int64_t most) { return std::max(L, most / L * L); }),
      loss_settings_(loss_settings(options)),
      numbers_{.normalize = options.normalize_advantage == AdvantageNorm::minibatch,
               .entropy_floor_penalty = float(options.entropy_floor_penalty),
               .target_kl = float(options.target_kl)},
      schedules_{.lr = {options.lr, options.lr_end},
                 .clip = {options.clip, options.clip_end},
                 .value_clip = {options.value_clip, options.value_clip_end},
                 .entropy = {options.entropy, options.entropy_end, 0, options.entropy_until},
                 .entropy_floor = floor_schedule(options),
                 .rows = rollout_rows_ * context.processes,
                 .total = scheduled_rows(options, context)} {
  if (Panels* panels = policy.panels())
    panels->reserve({.rows = panel_rows_at_once(options, context),
                     .sequence = sequence_,
                     .shard = micro_batch_.rows(),
                     .lanes = lane_count(context, minibatch_, micro_batch_.rows())});
  // columns beside the rollout's
  const auto f32 = at::TensorOptions(at::kFloat).device(context.device);
  for (auto* column : {&advantage_, &returns_, &valid_, &target_, &old_value_})
    *column = at::zeros({options.rollout, context.rows}, f32);
  error_ = at::zeros({context.processes * rollout_rows_}, f32);
  if (context.group) all_rows_ = at::arange(minibatch_ * context.processes, f32.dtype(at::kLong));

  // the order of an epoch, and each minibatch's part of it
  permutation_ = at::zeros({rollout_rows_ / sequence_}, f32.dtype(at::kLong));
  order_ = sequence_ == 1 ? permutation_ : at::zeros({rollout_rows_}, permutation_.options());
  for (int64_t begin = 0; begin < rollout_rows_; begin += minibatch_)
    minibatches_.push_back(order_.narrow(0, begin, std::min(minibatch_, rollout_rows_ - begin)));

  // scalars that kernels hand to each other
  device_ = {.steps_done = state.steps_done,
             .lr = at::zeros({}, f32),
             .statistics = at::zeros({3}, f32),
             .clip = at::zeros({}, f32),
             .value_clip = at::zeros({}, f32),
             .entropy_coef = at::zeros({}, f32),
             .entropy_floor = at::zeros({}, f32),
             .last_entropy = state.last_entropy,
             .stop = at::zeros({}, f32),
             .scalars = at::zeros({6}, f32),
             .figures = at::zeros({int64_t(kPpoFigures)}, f32),
             .counts = at::zeros({}, f32)};
  advantage_mean_ = device_.statistics.select(0, 0);
  advantage_scale_ = device_.statistics.select(0, 1);
  explained_ = at::zeros({}, f32);
  scratch_ = advantage_scratch(rollout_rows_ * context.processes, context.device);
  build_lanes();
}

void FusedLearner::build_lanes() {
  // gradients and figures of all lanes, and of the first few where a minibatch needs no more
  const int64_t count = lane_count(context_, minibatch_, micro_batch_.rows());
  const auto& data = policy_.params().data();
  lane_grads_ = at::zeros({count, data.numel()}, data.options());
  lane_figures_ = at::zeros({count, int64_t(kPpoFigures)}, data.options().dtype(at::kDouble));
  for (int64_t l = 1; l <= count; ++l)
    first_lanes_.push_back({lane_grads_.narrow(0, 0, l), lane_figures_.narrow(0, 0, l)});

  // autograd adds gradients where a module's parameters say, so each lane has a replica
  if (policy_.panels()) return;
  for (int64_t l = 0; l < count; ++l)
    lanes_.push_back({policy_.replica(lane_grads_[l]), lane_grads_[l], lane_figures_[l]});
}

void FusedLearner::update(const Batch& batch, Metrics& metrics) {
  at::NoGradGuard no_grad;
  if (first_metric_ < 0) first_metric_ = metrics.declare(metric_names());

  // schedules, values, advantages and targets
  prepare(batch);

  // epochs of minibatches, each in another order
  for (int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
    shuffle(epoch);
    for (const auto& index : minibatches_) step_and_report(batch, index, metrics);
    if (epoch + 1 < options_.epochs) metrics.passed(epoch);
  }

  report_update(metrics);
  metrics.passed(options_.epochs - 1);
  finish(batch);
}

void FusedLearner::prepare(const Batch& batch) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("advantages");

  // schedules of this update
  ppo_update_(device_, schedules_);

  // values that act left out
  auto value = batch.extra[value_column];
  find_values(batch, value);

  // rewards in units of the discounted return's deviation
  auto reward = batch.reward;
  if (state_.reward_norm) {
    // a step whose next row is first only reset its environment
    valid_.copy_(1 - batch.is_first.narrow(0, 1, options_.rollout));
    reward = state_.scaled_reward(batch, valid_, context_.group);
  }

  // advantages, returns, and which rows count
  gae_(advantage_, reward, value, batch.terminated, batch.is_first, options_.gamma, options_.lambda,
       {.returns = returns_, .valid = valid_});

  // what values should have been, and what is left of their variance
  normalize_targets(value);
  explained_variance_(explained_, of_all(target_), of_all(old_value_), of_all(valid_), error_,
                      scratch_, *context_.pool);

  // advantages of the whole rollout to mean 0 and deviation 1
  if (options_.normalize_advantage == AdvantageNorm::batch) {
    advantage_statistics_(device_.statistics, of_all(advantage_), of_all(valid_), {}, scratch_,
                          *context_.pool);
    advantage_.sub_(advantage_mean_).mul_(valid_).mul_(advantage_scale_);
  }
}

void FusedLearner::find_values(const Batch& batch, at::Tensor value) {
  // on panels all of them, which act needs not, or what is left
  if (Panels* panels = policy_.panels()) {
    panels->values(batch, value);
    const auto& head = policy_.network().value_head();
    if (head.normalizes()) value.copy_(head.denormalize(value));
    return;
  }

  // else the row behind the rollout, which bootstraps, in the blocks that act sees
  const int64_t T = options_.rollout, R = context_.rows;
  context_.pool->run((R + block_rows_ - 1) / block_rows_, [&](int64_t b) {
    at::NoGradGuard thread_no_grad;
    const int64_t begin = b * block_rows_, count = std::min(block_rows_, R - begin);
    value[T].narrow(0, begin, count).copy_(policy_.last_value(batch, begin, count));
  });
}

void FusedLearner::normalize_targets(const at::Tensor& value) {
  auto& head = policy_.network().value_head();
  if (!head.normalizes()) {
    // the reward's units are the head's
    target_ = returns_;
    if (old_value_.data_ptr() != value.data_ptr())
      old_value_ = value.narrow(0, 0, options_.rollout);
    return;
  }
  // the head takes the returns in, and the optimiser's moments follow its weights
  head.absorb(of_all(flat(returns_)), of_all(flat(valid_)), state_.head_moments());
  target_.copy_(head.normalize(returns_));
  old_value_.copy_(head.normalize(value.narrow(0, 0, options_.rollout)));
}

at::Tensor FusedLearner::of_all(const at::Tensor& column) const {
  return gathered(context_.group, column);
}

void FusedLearner::shuffle(int64_t epoch) {
  const PermutationKey key{.seed = context_.seed,
                           .counter = epoch + first_number(context_.group),
                           .n = permutation_.size(0),
                           .base = state_.epochs_done.const_data_ptr<int64_t>()};
  if (context_.device.is_cuda()) {
    fill_permutation(permutation_, key, 0);
    if (sequence_ > 1) order_.copy_(rows_of_sequences(permutation_, sequence_, context_.rows));
    return;
  }
  // its elements know nothing of each other
  int64_t *sequences = permutation_.data_ptr<int64_t>(), *rows = order_.data_ptr<int64_t>();
  context_.pool->run((key.n + kShufflePart - 1) / kShufflePart, [&](int64_t p) {
    const int64_t begin = p * kShufflePart, count = std::min(kShufflePart, key.n - begin);
    permutation_cpu(key, begin, count, sequences + begin);
    if (sequence_ == 1) return;
    const int64_t L = sequence_, R = context_.rows;
    for (int64_t s = begin; s < begin + count; ++s)
      for (int64_t l = 0; l < L; ++l) rows[s * L + l] = row_of_sequence(sequences[s], l, L, R);
  });
}

void FusedLearner::step_and_report(const Batch& batch, const at::Tensor& index, Metrics& metrics) {
  minibatch_step(batch, index);
  // behind the step that ended the update figures count nothing
  ppo_report_step_(device_, state_.optimizer->norm(), metrics.sums(), first_metric_);
}

void FusedLearner::report_update(Metrics& metrics) {
  const int64_t first = first_metric_ + int64_t(metric_names().size()) - kUpdateFigures;
  ppo_report_update_({.explained = explained_,
                      .nonfinite = state_.optimizer->nonfinite(),
                      .scale = state_.loss_scale.scale()},
                     metrics.sums(), first, options_.epochs, state_.epochs_done);
}

void FusedLearner::minibatch_step(const Batch& batch, const at::Tensor& index) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("minibatch");
  const int64_t B = index.size(0);

  // what the loss needs: this minibatch's advantages, clip, entropy's weight
  PpoNumbers numbers = numbers_;
  numbers.normalize &= B * context_.processes > 1;
  PpoAdvantages rows{.advantage = advantage_, .valid = valid_, .index = index, .scratch = scratch_};
  // with other processes the minibatch is theirs too
  if (context_.group)
    rows = {.advantage = of_all(flat(advantage_).index_select(0, index)),
            .valid = of_all(flat(valid_).index_select(0, index)),
            .index = all_rows_.narrow(0, 0, B * context_.processes),
            .scratch = scratch_};
  ppo_begin_(device_, numbers, rows, *context_.pool);

  // gradients and figures, each lane its own
  if (policy_.panels()) learn_panels(batch, index, lanes_of(B));
  else micro_batch_.run([&](int64_t rows) { learn_shards(batch, index, rows, lanes_of(B)); });
  Lanes& lanes = lanes_of(B);

  // figures added up; past target_kl this step and all behind it are left out
  ppo_end_(device_, numbers, of_all(lanes.figures));

  // lanes added up, clipped, stepped along
  reduce_all(*state_.optimizer, lanes.grads, state_.loss_scale.unscale(), *context_.pool,
             context_.group);
  state_.optimizer->clip(/*skip=*/device_.stop);
  state_.loss_scale.adapt(state_.optimizer->norm());
  state_.optimizer->step(device_.lr, *context_.pool);
  policy_.round_weights();
}

FusedLearner::Lanes& FusedLearner::lanes_of(int64_t minibatch) {
  const int64_t rows = micro_batch_.rows(), shards = (minibatch + rows - 1) / rows;
  return first_lanes_[size_t(std::min(shards, lane_grads_.size(0)) - 1)];
}

void FusedLearner::learn_panels(const Batch& batch, const at::Tensor& index, Lanes& lanes) {
  policy_.panels()->learn(batch, index,
                          {.old_log_prob = batch.extra[log_prob_column].const_data_ptr<float>(),
                           .advantage = advantage_.const_data_ptr<float>(),
                           .target = target_.const_data_ptr<float>(),
                           .old_value = old_value_.const_data_ptr<float>(),
                           .valid = valid_.const_data_ptr<float>()},
                          loss_settings_,
                          reinterpret_cast<const PpoLossScalars*>(device_.scalars.const_data_ptr()),
                          lanes.grads, lanes.figures);
}

void FusedLearner::learn_shards(const Batch& batch, const at::Tensor& index, int64_t rows,
                                Lanes& used) {
  const int64_t B = index.size(0), lanes = used.grads.size(0);
  context_.pool->run(lanes, [&](int64_t l) {
    Lane& lane = lanes_[size_t(l)];
    lane.grad.zero_(), lane.figures.zero_();
    // shards l, l + lanes, ...: the same ones on any number of threads
    for (int64_t begin = l * rows; begin < B; begin += lanes * rows)
      learn_shard(batch, lane, index.narrow(0, begin, std::min(rows, B - begin)));
  });
}

void FusedLearner::learn_shard(const Batch& batch, Lane& lane, const at::Tensor& given) {
  at::AutoGradMode with_grad(true);
  const auto shard = trace::stage("shard");
  const int64_t T = options_.rollout;
  SequenceRows sequences = time_first(batch, given, sequence_);
  const at::Tensor& index = sequences.index;

  // observations of the shard's rows through the lane's networks
  std::vector<at::Tensor> columns;
  for (const auto& o : batch.obs) columns.push_back(flat_steps(o, T));
  const auto forward = [&] {
    const auto span = trace::stage("forward");
    return policy_.forward(*lane.network, gather_rows(columns, index),
                           {.policy = true, .value = true}, &sequences.recall);
  };
  const auto out = forward();

  // the loss picks the other columns' rows itself
  PpoLossBatch rows{.index = index,
                    .rollout = {.action = flat(batch.action),
                                .old_log_prob = flat(batch.extra[log_prob_column]),
                                .advantage = flat(advantage_),
                                .target = flat(target_),
                                .old_value = flat(old_value_),
                                .valid = flat(valid_)},
                    .settings = loss_settings_,
                    .scalars = device_.scalars};
  if (batch.mask.defined()) rows.rollout.mask = flat_steps(batch.mask, T);
  const auto loss_of_rows = [&] {
    const auto span = trace::stage("loss");
    return ppo_loss(context_.spec.action, out.logits, lane.network->log_std(), out.value, rows,
                    lane.figures);
  };
  auto loss = loss_of_rows();

  // gradients are added to the lane's
  const auto span = trace::stage("backward");
  if (context_.precision == Precision::fp16) loss = loss * state_.loss_scale.scale();
  loss.backward();
}

void FusedLearner::finish(const Batch& batch) {
  // observations are standardised by what was seen, from the next rollout on
  at::NoGradGuard no_grad;
  policy_.network().absorb(batch.obs, batch.is_first, options_.rollout, context_.group);
}

Results FusedLearner::results() const {
  return {.advantage = advantage_,
          .returns = returns_,
          .explained_variance = explained_,
          .figures = device_.figures,
          .grad_norm = state_.optimizer->norm(),
          .stopped = device_.stop};
}

}  // namespace maglev::ppo
