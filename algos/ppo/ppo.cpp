#include "algos/ppo/ppo.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <torch/torch.h>

#include "base/core/error.h"
#include "engine/nn/muon.h"
#include "kernels/advantage/advantage_op.h"
#include "kernels/gae/gae_op.h"
#include "kernels/gather/gather_op.h"
#include "kernels/philox/philox_op.h"
#include "kernels/policy/distribution_op.h"
#include "kernels/policy/policy_op.h"
#include "kernels/ppo_loss/ppo_loss_op.h"

namespace maglev::ppo {
namespace {

// gradients are added over this many lanes at most, however many threads there are
constexpr int64_t kMostLanes = 16;
// multiply-adds a shard should have at least, so that its operations outweigh their dispatch
constexpr int64_t kShardWork = 16'000'000;
// rows a shard has where a row costs this many multiply-adds, so that reading weights counts little
constexpr int64_t kLargeNetwork = 1'000'000, kLargeShard = 512;

at::Tensor flat(const at::Tensor& t) { return t.flatten(0, 1); }

// [T+1, rows, ...] or [T, rows, ...] -> [T * rows, ...] of the first T times
at::Tensor flat_steps(const at::Tensor& t, int64_t T) { return flat(t.narrow(0, 0, T)); }

bool reduced(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

bool on_panels(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  return o.fused && context.device.is_cpu() && !reduced(context.precision) &&
         PanelNetwork::obstacle(network, context.spec).empty();
}

int64_t minibatch_rows(const Options& o, const AlgoContext& context) {
  return o.minibatch == 0 ? o.rollout * context.rows : o.minibatch;
}

int64_t shard_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  if (on_panels(o, context, network)) return kPanelRows;
  const int64_t minibatch = minibatch_rows(o, context);
  int64_t rows = o.shard_rows;
  if (context.device.is_cuda()) rows = minibatch;
  else if (rows == 0)
    rows = network.cost() > kLargeNetwork
               ? kLargeShard
               : std::clamp<int64_t>(kShardWork / network.cost(), 64, 1024);
  return std::min(rows, std::max<int64_t>(64, (minibatch + 1) / 2));
}

int64_t lane_count(int64_t minibatch, int64_t shard) {
  return std::min((minibatch + shard - 1) / shard, kMostLanes);
}

NetworkOptions network_options(const Options& o, const AlgoContext& context) {
  NetworkOptions network = o.network;
  network.bf16 = context.precision == Precision::bf16 && context.device.is_cpu();
  return network;
}

DataPlan data_plan(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  DataPlan plan;
  plan.collect_steps = o.rollout;
  plan.columns = {{.name = "log_prob"}, {.name = "value", .has_last = true}};
  plan.block_rows = context.device.is_cuda()
                        ? context.rows
                        : std::min<int64_t>(256, shard_rows(o, context, network));
  plan.autocast = true;
  plan.capturable = context.device.is_cuda();
  return plan;
}

// what the layers of a row give, f32: of a convolution a value a cell, of a dense layer its outputs
int64_t row_outputs(const ActorCritic& network, const EnvSpec& spec) {
  int64_t cells = 1, outputs = 0;
  for (const auto& column : spec.observations) {
    const auto& grid = column.cells.bits ? column.cells.grid : column.shape;
    if (grid.size() >= 2) cells = std::max(cells, grid[0] * grid[1]);
  }
  for (const auto& p : network.parameters())
    if (p.dim() >= 2) outputs += p.size(0) * (p.dim() == 4 ? cells : 1);
  return outputs;
}

}  // namespace

Ppo::Ppo(const Options& options, const AlgoContext& context)
    : options_(options), context_(context) {
  batch_rows_ = options.rollout * context.rows;
  minibatch_ = minibatch_rows(options, context);
  if (minibatch_ > batch_rows_)
    throw Error("[ppo] ppo.minibatch must be at most ppo.rollout * env.count = " +
                std::to_string(batch_rows_) + " rows, got " + std::to_string(minibatch_));

  options_.network = network_options(options, context);
  network_ =
      std::make_shared<ActorCritic>(context.spec, options_.network, Initializer(context.seed));
  network_->to(context.device);
  params_ = std::make_unique<FlatParams>(*network_);
  network_->round_weights();
  const AdamOptions adam{.eps = options.adam_eps,
                         .weight_decay = options.weight_decay,
                         .max_grad_norm = options.max_grad_norm,
                         .clip_per_module = options.clip_grad == "module"};
  if (options.optimizer == "muon")
    optimizer_ = std::make_unique<FlatMuon>(
        *params_, *network_, adam, MuonOptions{.adam_modules = {"policy_weight", "value_head"}});
  else optimizer_ = std::make_unique<FlatAdam>(*params_, adam);
  if (options.normalize_reward) {
    reward_norm_ = std::make_shared<RewardNorm>(context.rows, options.gamma);
    reward_norm_->to(context.device);
  }

  plan_ = data_plan(options_, context, *network_);
  loss_scale_ = std::make_unique<LossScale>(context.precision == Precision::fp16, context.device);
  if (on_panels(options_, context, *network_))
    panels_ = std::make_unique<Panels>(*network_, *params_, context);
  shard_rows_ = shard_rows(options_, context, *network_);

  auto f32 = at::TensorOptions(at::kFloat).device(context.device);
  const std::vector<int64_t> steps{options.rollout, context.rows};
  advantage_ = at::zeros(steps, f32), returns_ = at::zeros(steps, f32),
  valid_ = at::zeros(steps, f32);
  target_ = at::zeros(steps, f32), old_value_ = at::zeros(steps, f32);
  error_ = at::zeros(steps, f32), explained_ = at::zeros({}, f32);
  permutation_ = at::zeros({batch_rows_}, f32.dtype(at::kLong));
  for (int64_t begin = 0; begin < batch_rows_; begin += minibatch_)
    minibatches_.push_back(
        permutation_.narrow(0, begin, std::min(minibatch_, batch_rows_ - begin)));
  state_ = {.steps_done = at::zeros({}, f32.dtype(at::kDouble)),
            .lr = at::zeros({}, f32),
            .statistics = at::zeros({3}, f32),
            .clip = at::zeros({}, f32),
            .entropy_coef = at::zeros({}, f32),
            .last_entropy = at::full({}, 1e9, f32),
            .stop = at::zeros({}, f32),
            .scalars = at::zeros({8}, f32),
            .figures = at::zeros({int64_t(kPpoFigures)}, f32)};
  numbers_ = {.normalize = options.normalize_advantage == "minibatch",
              .entropy_floor = float(options.entropy_floor),
              .entropy_floor_penalty = float(options.entropy_floor_penalty),
              .value_coef = float(options.value_coef),
              .value_clip = float(options.value_clip),
              .value_clip_max = options.value_clip_loss == "max",
              .target_kl = float(options.target_kl)};
  schedules_ = {.lr = {options.lr, options.lr_end},
                .clip = {options.clip, options.clip_end},
                .entropy = {options.entropy, options.entropy_end},
                .rows = batch_rows_,
                .total = std::max<int64_t>(1, context.total_steps)};
  epochs_done_ = at::zeros({}, f32.dtype(at::kLong));
  build_lanes();
}

void Ppo::build_lanes() {
  const int64_t count = lane_count(minibatch_, shard_rows_);
  lane_grads_ = at::zeros({count, params_->size()}, params_->data().options());
  lane_figures_ =
      at::zeros({count, int64_t(kPpoFigures)}, params_->data().options().dtype(at::kDouble));
  for (int64_t l = 1; l <= count; ++l)
    first_lanes_.push_back({lane_grads_.narrow(0, 0, l), lane_figures_.narrow(0, 0, l)});
  advantage_partials_.resize(size_t(advantage_chunks(batch_rows_)));
  if (panels_) return;
  for (int64_t l = 0; l < count; ++l) {
    auto replica =
        std::make_shared<ActorCritic>(context_.spec, options_.network, Initializer::none());
    replica->to(context_.device);
    params_->bind(*network_, *replica, lane_grads_[l]);
    replica->share_rounded(*network_);
    lanes_.push_back({replica, lane_grads_[l], lane_figures_[l]});
  }
}

Evaluation Ppo::forward(const ActorCritic& network, const std::vector<at::Tensor>& obs,
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

void Ppo::act(Row& row, Carry&, ActMode mode, const ActKey& key) {
  const bool learning = !row.extra.empty();
  if (panels_)
    return panels_->act(row, mode, key, learning ? &row.extra[log_prob_column] : nullptr);
  c10::InferenceMode guard;
  auto out = forward(*network_, row.obs, {.policy = true, .value = learning});
  const DistParams dist{out.logits, network_->log_std(), row.mask};
  auto draw = options_.fused ? policy_sample : sample;
  auto log_prob = draw(context_.spec.action, dist, mode, key, row.first, row.action);
  if (!learning) return;
  row.extra[log_prob_column].copy_(log_prob);
  row.extra[value_column].copy_(network_->value_head().denormalize(out.value));
}

void Ppo::bootstrap(const Batch& batch, at::Tensor value) {
  const int64_t T = options_.rollout, R = context_.rows;
  const int64_t blocks = (R + plan_.block_rows - 1) / plan_.block_rows;
  context_.pool->run(blocks, [&](int64_t b) {
    at::NoGradGuard thread_no_grad;
    const int64_t begin = b * plan_.block_rows, count = std::min(plan_.block_rows, R - begin);
    std::vector<at::Tensor> last;
    for (const auto& o : batch.obs) last.push_back(o[T].narrow(0, begin, count));
    auto out = forward(*network_, last, {.policy = false, .value = true});
    value.narrow(0, begin, count).copy_(network_->value_head().denormalize(out.value));
  });
}

void Ppo::prepare(const Batch& batch) {
  at::NoGradGuard no_grad;
  const int64_t T = options_.rollout;
  ppo_update_(state_, schedules_);

  auto value = batch.extra[value_column];
  if (panels_) {
    panels_->values(batch, value);
    value.copy_(network_->value_head().denormalize(value));
  } else {
    bootstrap(batch, value[T]);
  }

  auto reward = batch.reward;
  if (reward_norm_) {
    // a step whose next row is first only reset its environment
    valid_.copy_(1 - batch.is_first.narrow(0, 1, T));
    reward =
        reward_norm_->absorb(reward, at::bitwise_or(batch.terminated, batch.truncated), valid_);
  }
  gae_(advantage_, reward, value, batch.terminated, batch.is_first, options_.gamma, options_.lambda,
       {.returns = returns_, .valid = valid_});
  normalize_targets(value);

  if (options_.normalize_advantage == "batch") {
    auto total = valid_.sum();
    auto mean = (advantage_ * valid_).sum() / total;
    auto centred = (advantage_ - mean) * valid_;
    auto std = at::sqrt((centred * centred).sum() / (total - 1).clamp_min(1));
    advantage_.copy_(centred / (std + 1e-8));
  }
}

void Ppo::normalize_targets(const at::Tensor& value) {
  auto& head = network_->value_head();
  if (!head.normalizes()) {
    // the reward's units are the head's
    target_ = returns_;
    if (old_value_.data_ptr() != value.data_ptr())
      old_value_ = value.narrow(0, 0, options_.rollout);
    return;
  }
  // the optimiser's moments follow the head's weights
  head.absorb(flat(returns_), flat(valid_), head_moments());
  target_.copy_(head.normalize(returns_));
  old_value_.copy_(head.normalize(value.narrow(0, 0, options_.rollout)));
}

ValueHead::AdamMoments Ppo::head_moments() {
  int64_t begin = 0, count = 0;
  for (const auto& p : network_->named_parameters()) {
    if (p.key().starts_with("value_head.")) count += p.value().numel();
    else if (count == 0) begin += p.value().numel();
  }
  return {optimizer_->first_moment().narrow(0, begin, count),
          optimizer_->second_moment().narrow(0, begin, count)};
}

AdvantagePartial* Ppo::partials(const at::Tensor& column, const int64_t* index, int64_t count) {
  const AdvantageArgs args{.advantage = column.const_data_ptr<float>(),
                           .valid = valid_.const_data_ptr<float>(),
                           .index = index,
                           .count = count};
  context_.pool->run(advantage_chunks(count), [&](int64_t c) {
    advantage_partials_[size_t(c)] = advantage_partial(args, c);
  });
  return advantage_partials_.data();
}

void Ppo::minibatch_statistics(const at::Tensor& index) {
  if (!context_.device.is_cpu()) {
    state_.statistics.copy_(advantage_statistics(flat(advantage_), flat(valid_), index));
    return;
  }
  const int64_t count = index.size(0);
  auto* statistics = reinterpret_cast<AdvantageStatistics*>(state_.statistics.data_ptr<float>());
  *statistics = advantage_finish(partials(advantage_, index.const_data_ptr<int64_t>(), count),
                                 advantage_chunks(count));
}

void Ppo::minibatch_step(const Batch& batch, const at::Tensor& index) {
  at::NoGradGuard no_grad;
  const int64_t B = index.size(0), shards = (B + shard_rows_ - 1) / shard_rows_;
  const int64_t lanes = std::min(shards, lane_grads_.size(0));
  auto [grads, figures] = first_lanes_[size_t(lanes - 1)];
  minibatch_statistics(index);
  PpoNumbers numbers = numbers_;
  numbers.normalize &= B > 1;
  ppo_begin_(state_, numbers);
  if (panels_) {
    panels_->learn(batch, index,
                   {.old_log_prob = batch.extra[log_prob_column].const_data_ptr<float>(),
                    .advantage = advantage_.const_data_ptr<float>(),
                    .target = target_.const_data_ptr<float>(),
                    .old_value = old_value_.const_data_ptr<float>(),
                    .valid = valid_.const_data_ptr<float>()},
                   *reinterpret_cast<const PpoLossScalars*>(state_.scalars.const_data_ptr()), grads,
                   figures);
  } else {
    context_.pool->run(lanes, [&](int64_t l) {
      lanes_[size_t(l)].grad.zero_(), lanes_[size_t(l)].figures.zero_();
      for (int64_t s = l; s < shards; s += lanes) {
        const int64_t begin = s * shard_rows_;
        learn_shard(batch, lanes_[size_t(l)],
                    index.narrow(0, begin, std::min(shard_rows_, B - begin)));
      }
    });
  }
  ppo_end_(state_, numbers, figures);
  at::Tensor skip = state_.stop;
  if (context_.precision == Precision::fp16) {
    auto grad = grads[0];
    if (lanes > 1) grad.copy_(grads.sum(0));
    skip = at::maximum(skip, loss_scale_->unscale(grad));
    grads = grad.unsqueeze(0);
  }
  optimizer_->step(grads, state_.lr, skip, *context_.pool);
  network_->round_weights();
}

void Ppo::learn_shard(const Batch& batch, Lane& lane, const at::Tensor& index) {
  at::AutoGradMode with_grad(true);
  std::vector<at::Tensor> columns;
  for (const auto& o : batch.obs) columns.push_back(flat_steps(o, options_.rollout));
  const auto obs = gather_rows(columns, index);
  auto out = forward(*lane.network, obs, {.policy = true, .value = true});
  const PpoLossBatch rows{
      .index = index,
      .action = flat(batch.action),
      .old_log_prob = flat(batch.extra[log_prob_column]),
      .advantage = flat(advantage_),
      .target = flat(target_),
      .valid = flat(valid_),
      .old_value = flat(old_value_),
      .mask = batch.mask.defined() ? flat_steps(batch.mask, options_.rollout) : at::Tensor(),
      .scalars = state_.scalars};
  const ActionSpec& action = context_.spec.action;
  auto scaled = [&](const at::Tensor& loss) {
    return context_.precision == Precision::fp16 ? loss * loss_scale_->scale() : loss;
  };
  if (options_.fused) {
    auto loss =
        ppo_loss(action, out.logits, lane.network->log_std(), out.value, rows, lane.figures);
    scaled(loss).backward();
    return;
  }
  auto figures = ppo_loss_reference(action, out.logits, lane.network->log_std(), out.value, rows);
  scaled(figures[kPpoTotal]).backward();
  lane.figures.add_(figures.detach());
}

const at::Tensor& Ppo::explained_variance() {
  at::NoGradGuard no_grad;
  if (context_.device.is_cpu()) {
    const int64_t chunks = advantage_chunks(batch_rows_);
    const float *target = target_.const_data_ptr<float>(),
                *old = old_value_.const_data_ptr<float>();
    float* error = error_.data_ptr<float>();
    for (int64_t i = 0; i < batch_rows_; ++i) error[i] = target[i] - old[i];
    const double spread = advantage_join(partials(target_, nullptr, batch_rows_), chunks).squares;
    const double rest = advantage_join(partials(error_, nullptr, batch_rows_), chunks).squares;
    *explained_.data_ptr<float>() =
        spread > 0 ? float(1 - rest / spread) : std::numeric_limits<float>::quiet_NaN();
    return explained_;
  }
  at::sub_out(error_, target_, old_value_);
  auto squares = [&](const at::Tensor& x) {
    auto mean = (x * valid_).sum() / valid_.sum();
    return ((x - mean).square() * valid_).sum();
  };
  auto spread = squares(target_);
  explained_.copy_(
      at::where(spread > 0, 1 - squares(error_) / spread, std::numeric_limits<float>::quiet_NaN()));
  return explained_;
}

void Ppo::shuffle(int64_t epoch) {
  const PermutationKey key{.seed = context_.seed,
                           .counter = epoch,
                           .n = batch_rows_,
                           .base = epochs_done_.const_data_ptr<int64_t>()};
  if (!context_.device.is_cpu()) return fill_permutation(permutation_, key, 0);
  constexpr int64_t kPart = 4096;
  int64_t* order = permutation_.data_ptr<int64_t>();
  context_.pool->run((batch_rows_ + kPart - 1) / kPart, [&](int64_t p) {
    permutation_cpu(key, p * kPart, std::min(kPart, batch_rows_ - p * kPart), order + p * kPart);
  });
}

void Ppo::report_minibatch(Metrics& metrics, float weight) const {
  std::array<float, kPpoFigures + 2> record;
  std::copy_n(state_.figures.const_data_ptr<float>(), int(kPpoFigures), record.begin());
  record[kPpoFigures] = *optimizer_->norm().const_data_ptr<float>();
  record[kPpoFigures + 1] = *state_.lr.const_data_ptr<float>();
  metrics.add(first_metric_, record, weight);
}

void Ppo::update(const Batch& batch, Metrics& metrics) {
  at::NoGradGuard no_grad;
  if (first_metric_ < 0)
    first_metric_ = metrics.declare(
        {"loss/policy", "loss/value", "loss/entropy", "loss/approx_kl", "loss/clip_fraction",
         "loss/ratio_deviation", "loss/total", "loss/grad_norm", "loss/learning_rate",
         "loss/explained_variance", "loss/nonfinite_steps", "loss/scale"});
  const bool on_cpu = context_.device.is_cpu();
  prepare(batch);
  for (int64_t e = 0; e < options_.epochs; ++e) {
    shuffle(e);
    for (const auto& index : minibatches_) {
      if (on_cpu) {
        const float weight = 1 - *state_.stop.const_data_ptr<float>();
        minibatch_step(batch, index);
        report_minibatch(metrics, weight);
      } else {
        auto weight = 1 - state_.stop;
        minibatch_step(batch, index);
        metrics.add(first_metric_,
                    at::cat({state_.figures, at::stack({optimizer_->norm(), state_.lr})}), weight);
      }
    }
  }
  const auto &explained = explained_variance(), &left_out = optimizer_->nonfinite(),
             &skipped = loss_scale_->skipped(), &scale = loss_scale_->scale();
  const int64_t next = first_metric_ + kPpoFigures + 2;
  // where targets do not vary there is nothing to explain: no figure, and no sign of divergence
  if (on_cpu) {
    auto one = [](const at::Tensor& t) { return *t.const_data_ptr<float>(); };
    metrics.add(next, std::array{one(explained)}, std::isnan(one(explained)) ? 0.f : 1.f);
    metrics.add(next + 1, std::array{one(left_out) + one(skipped), one(scale)}, 1);
  } else {
    metrics.add(next, explained.unsqueeze(0), at::isfinite(explained).to(at::kFloat));
    metrics.add(next + 1, at::stack({left_out + skipped, scale}), at::ones_like(scale));
  }
  finish(batch);
}

void Ppo::finish(const Batch& batch) {
  if (context_.device.is_cpu()) *epochs_done_.data_ptr<int64_t>() += options_.epochs;
  else epochs_done_.add_(options_.epochs);
  if (!options_.network.normalize_obs) return;
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> seen;
  for (const auto& o : batch.obs) seen.push_back(o.narrow(0, 0, options_.rollout));
  network_->encoder().absorb(seen);
}

void Ppo::visit_state(StateVisitor& visitor) {
  visitor.section("network", [&](StateVisitor& v) { visit_module(*network_, v); });
  network_->round_weights();
  visitor.section("optimizer", [&](StateVisitor& v) { optimizer_->visit_state(v); });
  if (context_.precision == Precision::fp16)
    visitor.section("loss_scale", [&](StateVisitor& v) { loss_scale_->visit_state(v); });
  if (reward_norm_)
    visitor.section("reward_norm", [&](StateVisitor& v) { visit_module(*reward_norm_, v); });
  visitor.tensor("last_entropy", state_.last_entropy);
  visitor.tensor("steps_done", state_.steps_done);
  visitor.tensor("epochs_done", epochs_done_);
}

DataPlan planned_data(const Options& options, const AlgoContext& context) {
  const ActorCritic network(context.spec, network_options(options, context), Initializer::shapes());
  return data_plan(options, context, network);
}

std::vector<MemoryPart> planned_memory(const Options& o, const AlgoContext& context) {
  const ActorCritic network(context.spec, network_options(o, context), Initializer::shapes());
  constexpr int64_t f32 = 4;
  int64_t parameters = 0;
  for (const auto& p : network.parameters()) parameters += p.numel();
  const int64_t shard = shard_rows(o, context, network);
  const int64_t lanes = lane_count(minibatch_rows(o, context), shard);
  // at work at once; each row keeps what its layers give, its gradients and what fused layers add
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  const int64_t working = context.device.is_cpu() ? std::min(threads, lanes) : 1;
  // advantages, returns, valid, targets, old values, errors; the permutation
  const int64_t row = 6 * f32 + 8;
  return {{"parameters and optimiser", 3 * f32 * parameters},
          {"gradients", lanes * f32 * parameters},
          {"activations", 3 * f32 * working * shard * row_outputs(network, context.spec)},
          {"advantages and targets", o.rollout * context.rows * row}};
}

}  // namespace maglev::ppo

namespace maglev::algos::ppo {

AlgoEntry entry() {
  using maglev::ppo::Options;
  return {.name = "ppo",
          .summary = "proximal policy optimisation, on-policy actor-critic",
          .make_options = box_options<Options>,
          .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
          .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
            return std::make_unique<maglev::ppo::Ppo>(*static_cast<const Options*>(o), context);
          },
          .plan =
              [](const void* o, const AlgoContext& context) {
                return maglev::ppo::planned_data(*static_cast<const Options*>(o), context);
              },
          .memory =
              [](const void* o, const AlgoContext& context) {
                return maglev::ppo::planned_memory(*static_cast<const Options*>(o), context);
              }};
}

}  // namespace maglev::algos::ppo
