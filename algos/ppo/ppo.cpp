#include "algos/ppo/ppo.h"

#include <algorithm>

#include <torch/torch.h>

#include "engine/core/error.h"
#include "engine/nn/distribution.h"
#include "kernels/gae/gae_op.h"
#include "kernels/philox/philox_op.h"

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

}  // namespace

Ppo::Ppo(const Options& options, const AlgoContext& context)
    : options_(options), context_(context) {
  plan_.collect_steps = options.rollout;
  plan_.columns = {{.name = "log_prob"}, {.name = "value", .has_last = true}};
  batch_rows_ = options.rollout * context.rows;
  minibatch_ = options.minibatch == 0 ? batch_rows_ : options.minibatch;
  if (minibatch_ > batch_rows_)
    throw Error("[ppo] ppo.minibatch must be at most ppo.rollout * env.count = " +
                std::to_string(batch_rows_) + " rows, got " + std::to_string(minibatch_));

  network_ =
      std::make_shared<ActorCritic>(context.spec, options.network, Initializer(context.seed));
  network_->to(context.device);
  params_ = std::make_unique<FlatParams>(*network_);
  network_->round_weights();
  adam_ = std::make_unique<FlatAdam>(*params_,
                                     AdamOptions{.eps = options.adam_eps,
                                                 .weight_decay = options.weight_decay,
                                                 .max_grad_norm = options.max_grad_norm,
                                                 .clip_per_module = options.clip_grad == "module"});
  if (options.normalize_reward) {
    reward_norm_ = std::make_shared<RewardNorm>(context.rows, options.gamma);
    reward_norm_->to(context.device);
  }

  shard_rows_ = options.shard_rows;
  if (context.device.is_cuda()) shard_rows_ = minibatch_;
  else if (shard_rows_ == 0)
    shard_rows_ = network_->cost() > kLargeNetwork
                      ? kLargeShard
                      : std::clamp<int64_t>(kShardWork / network_->cost(), 64, 1024);
  shard_rows_ = std::min(shard_rows_, std::max<int64_t>(64, (minibatch_ + 1) / 2));
  plan_.block_rows = context.device.is_cuda() ? context.rows : std::min<int64_t>(256, shard_rows_);

  auto f32 = at::TensorOptions(at::kFloat).device(context.device);
  const std::vector<int64_t> steps{options.rollout, context.rows};
  advantage_ = at::zeros(steps, f32), returns_ = at::zeros(steps, f32),
  valid_ = at::zeros(steps, f32);
  target_ = at::zeros(steps, f32), old_value_ = at::zeros(steps, f32);
  permutation_ = at::zeros({batch_rows_}, f32.dtype(at::kLong));
  lr_ = at::zeros({}, f32), clip_ = at::zeros({}, f32), entropy_coef_ = at::zeros({}, f32);
  stop_ = at::zeros({}, f32), grad_norm_ = at::zeros({}, f32);
  last_entropy_ = at::full({}, 1e9, f32);
  figures_ = at::zeros({kFigures}, f32);
  steps_done_ = at::zeros({}, f32.dtype(at::kDouble));
  build_lanes();
}

void Ppo::build_lanes() {
  const int64_t shards = (minibatch_ + shard_rows_ - 1) / shard_rows_;
  const int64_t count = std::min(shards, kMostLanes);
  lane_grads_ = at::zeros({count, params_->size()}, params_->data().options());
  lane_figures_ = at::zeros({count, int64_t(kFigures)}, params_->data().options());
  for (int64_t l = 0; l < count; ++l) {
    auto replica =
        std::make_shared<ActorCritic>(context_.spec, options_.network, Initializer::none());
    replica->to(context_.device);
    params_->bind(*network_, *replica, lane_grads_[l]);
    replica->share_rounded(*network_);
    lanes_.push_back({replica, lane_grads_[l], lane_figures_[l]});
  }
}

void Ppo::act(Row& row, Carry&, ActMode mode, const ActKey& key) {
  auto act_block = [&](Row& block) {
    c10::InferenceMode guard;
    auto out = network_->forward(block.obs, {.policy = true, .value = !block.extra.empty()});
    DistParams dist{out.logits, network_->log_std(), block.mask};
    auto log_prob = sample(context_.spec.action, dist, mode, key, block.first, block.action);
    if (block.extra.empty()) return;
    block.extra[log_prob_column].copy_(log_prob);
    block.extra[value_column].copy_(network_->value_head().denormalize(out.value));
  };
  if (row.blocks.size() <= 1) return act_block(row);
  context_.pool->run(int64_t(row.blocks.size()),
                     [&](int64_t b) { act_block(row.blocks[size_t(b)]); });
}

at::Tensor Ppo::scheduled(double start, double end_share) const {
  auto progress =
      at::clamp_max(steps_done_ / double(std::max<int64_t>(1, context_.total_steps)), 1.0);
  return (start * (1 + (end_share - 1) * progress)).to(at::kFloat);
}

void Ppo::prepare(const Batch& batch) {
  at::NoGradGuard no_grad;
  const int64_t T = options_.rollout, R = context_.rows;
  steps_done_.add_(double(batch_rows_));
  lr_.copy_(scheduled(options_.lr, options_.lr_end));
  clip_.copy_(scheduled(options_.clip, options_.clip_end));
  entropy_coef_.copy_(scheduled(options_.entropy, options_.entropy_end));
  stop_.zero_();

  // values of the bootstrap row
  auto value = batch.extra[value_column];
  const int64_t blocks = (R + plan_.block_rows - 1) / plan_.block_rows;
  context_.pool->run(blocks, [&](int64_t b) {
    at::NoGradGuard thread_no_grad;
    const int64_t begin = b * plan_.block_rows, count = std::min(plan_.block_rows, R - begin);
    std::vector<at::Tensor> last;
    for (const auto& o : batch.obs) last.push_back(o[T].narrow(0, begin, count));
    auto out = network_->forward(last, {.policy = false, .value = true});
    value[T].narrow(0, begin, count).copy_(network_->value_head().denormalize(out.value));
  });

  // a step whose next row is first only reset its environment
  valid_.copy_(1 - batch.is_first.narrow(0, 1, T));
  auto reward = batch.reward;
  if (reward_norm_)
    reward =
        reward_norm_->absorb(reward, at::bitwise_or(batch.terminated, batch.truncated), valid_);
  gae_(advantage_, reward, value, batch.terminated, batch.is_first, options_.gamma,
       options_.lambda);
  auto values = value.narrow(0, 0, T);
  at::add_out(returns_, advantage_, values);

  // targets in the value head's units; the optimiser's moments follow its weights
  auto& head = network_->value_head();
  head.absorb(flat(returns_), flat(valid_));
  if (auto scale = head.rescaled_by(); scale.defined()) {
    int64_t at = 0;
    for (const auto& p : network_->named_parameters()) {
      if (p.key().starts_with("value_head.")) {
        adam_->first_moment().narrow(0, at, p.value().numel()).mul_(scale);
        adam_->second_moment().narrow(0, at, p.value().numel()).mul_(scale * scale);
      }
      at += p.value().numel();
    }
  }
  target_.copy_(head.normalize(returns_));
  old_value_.copy_(head.normalize(values));

  if (options_.normalize_advantage == "batch") {
    auto total = valid_.sum();
    auto mean = (advantage_ * valid_).sum() / total;
    auto centred = (advantage_ - mean) * valid_;
    auto std = at::sqrt((centred * centred).sum() / (total - 1).clamp_min(1));
    advantage_.copy_(centred / (std + 1e-8));
  }
}

void Ppo::minibatch_step(const Batch& batch, const at::Tensor& index) {
  at::NoGradGuard no_grad;
  const int64_t B = index.size(0);
  auto advantage = flat(advantage_).index_select(0, index);
  auto valid = flat(valid_).index_select(0, index);
  auto count = valid.sum().clamp_min(1);
  if (options_.normalize_advantage == "minibatch" && B > 1) {
    auto mean = (advantage * valid).sum() / count;
    auto centred = (advantage - mean) * valid;
    auto std = at::sqrt((centred * centred).sum() / (count - 1).clamp_min(1));
    advantage = centred / (std + 1e-8);
  }

  const int64_t shards = (B + shard_rows_ - 1) / shard_rows_;
  const int64_t lanes = std::min<int64_t>(shards, int64_t(lanes_.size()));
  lane_grads_.zero_();
  lane_figures_.zero_();
  context_.pool->run(lanes, [&](int64_t l) {
    for (int64_t s = l; s < shards; s += lanes) {
      const int64_t begin = s * shard_rows_, rows = std::min(shard_rows_, B - begin);
      learn_shard(batch, lanes_[size_t(l)], index.narrow(0, begin, rows),
                  advantage.narrow(0, begin, rows), valid.narrow(0, begin, rows), count);
    }
  });
  auto grad = lanes == 1 ? lane_grads_[0] : lane_grads_.narrow(0, 0, lanes).sum(0);
  at::sum_out(figures_, lane_figures_.narrow(0, 0, lanes), 0);

  // the step that sees the policy too far away is left out, and all behind it
  if (options_.target_kl > 0)
    stop_.copy_(at::logical_or(stop_ != 0, figures_[approx_kl] > 1.5 * options_.target_kl));
  grad_norm_.copy_(adam_->step(grad, lr_, stop_));
  network_->round_weights();
  last_entropy_.copy_(figures_[entropy]);
}

void Ppo::learn_shard(const Batch& batch, Lane& lane, const at::Tensor& index,
                      const at::Tensor& advantage, const at::Tensor& valid,
                      const at::Tensor& count) {
  at::AutoGradMode with_grad(true);
  const int64_t T = options_.rollout;
  std::vector<at::Tensor> obs;
  for (const auto& o : batch.obs) obs.push_back(flat_steps(o, T).index_select(0, index));
  auto action = flat(batch.action).index_select(0, index);
  auto old_log_prob = flat(batch.extra[log_prob_column]).index_select(0, index);
  auto target = flat(target_).index_select(0, index);
  at::Tensor mask;
  if (batch.mask.defined()) mask = flat_steps(batch.mask, T).index_select(0, index);

  auto out = lane.network->forward(obs, {.policy = true, .value = true});
  auto dist = log_prob(context_.spec.action, {out.logits, lane.network->log_std(), mask}, action);
  auto weight = valid / count;  // means over the whole minibatch are sums of shards
  auto log_ratio = dist.log_prob - old_log_prob;
  auto ratio = log_ratio.exp();
  auto clipped = at::clamp(ratio, 1 - clip_, 1 + clip_);
  auto policy = -(at::minimum(ratio * advantage, clipped * advantage) * weight).sum();

  at::Tensor error;
  if (options_.value_clip > 0) {
    auto old = flat(old_value_).index_select(0, index);
    auto near = old + at::clamp(out.value - old, -options_.value_clip, options_.value_clip);
    error = (near - target).square();
    if (options_.value_clip_loss == "max")
      error = at::maximum(error, (out.value - target).square());
  } else {
    error = (out.value - target).square();
  }
  auto value = (error * weight).sum();
  auto mean_entropy = (dist.entropy * weight).sum();
  // below the floor the mean entropy of the minibatch before adds its penalty
  auto coef = entropy_coef_;
  if (options_.entropy_floor_penalty > 0)
    coef = coef +
           options_.entropy_floor_penalty * (last_entropy_ < options_.entropy_floor).to(at::kFloat);
  auto total = policy + options_.value_coef * value - coef * mean_entropy;
  total.backward();

  at::NoGradGuard no_grad;
  auto kl = ((ratio - 1 - log_ratio) * weight).sum();
  auto deviation = at::abs(ratio - 1);
  auto far = ((deviation > clip_).to(at::kFloat) * weight).sum();
  lane.figures.add_(
      at::stack({policy, value, mean_entropy, kl, far, (deviation * weight).sum(), total})
          .detach());
}

at::Tensor Ppo::explained_variance() const {
  auto valid = flat(valid_), target = flat(target_), error = flat(target_) - flat(old_value_);
  auto total = valid.sum();
  auto variance = [&](const at::Tensor& x) {
    auto mean = (x * valid).sum() / total;
    return ((x - mean).square() * valid).sum() / total;
  };
  auto spread = variance(target);
  return at::where(spread > 0, 1 - variance(error) / spread,
                   std::numeric_limits<float>::quiet_NaN());
}

void Ppo::update(const Batch& batch, Metrics& metrics) {
  at::NoGradGuard no_grad;
  if (first_metric_ < 0)
    first_metric_ = metrics.declare({"loss/policy", "loss/value", "loss/entropy", "loss/approx_kl",
                                     "loss/clip_fraction", "loss/ratio_deviation", "loss/total",
                                     "loss/grad_norm", "loss/learning_rate",
                                     "loss/explained_variance", "loss/nonfinite_steps"});
  prepare(batch);
  for (int64_t e = 0; e < options_.epochs; ++e) {
    const Permutation permutation(context_.seed, uint64_t(updates_ * options_.epochs + e),
                                  uint64_t(batch_rows_));
    constexpr int64_t kPart = 4096;
    context_.pool->run((batch_rows_ + kPart - 1) / kPart, [&](int64_t p) {
      auto part = permutation_.narrow(0, p * kPart, std::min(kPart, batch_rows_ - p * kPart));
      fill_permutation(part, permutation, p * kPart);
    });
    for (int64_t begin = 0; begin < batch_rows_; begin += minibatch_) {
      auto before = stop_.clone();
      minibatch_step(batch,
                     permutation_.narrow(0, begin, std::min(minibatch_, batch_rows_ - begin)));
      metrics.add(first_metric_, at::cat({figures_, at::stack({grad_norm_, lr_})}), 1 - before);
    }
  }
  metrics.add(first_metric_ + kFigures + 2, at::stack({explained_variance(), adam_->nonfinite()}),
              at::ones({}, lr_.options()));
  finish(batch);
}

void Ppo::finish(const Batch& batch) {
  ++updates_;
  if (!options_.network.normalize_obs) return;
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> seen;
  for (const auto& o : batch.obs) seen.push_back(o.narrow(0, 0, options_.rollout));
  network_->encoder().absorb(seen);
}

void Ppo::visit_state(StateVisitor& visitor) {
  visitor.section("network", [&](StateVisitor& v) { visit_module(*network_, v); });
  network_->round_weights();
  visitor.section("adam", [&](StateVisitor& v) { adam_->visit_state(v); });
  if (reward_norm_)
    visitor.section("reward_norm", [&](StateVisitor& v) { visit_module(*reward_norm_, v); });
  visitor.tensor("last_entropy", last_entropy_);
  visitor.tensor("steps_done", steps_done_);
  visitor.integer("updates", updates_);
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
          }};
}

}  // namespace maglev::algos::ppo
