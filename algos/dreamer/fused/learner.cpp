#include "algos/dreamer/fused/learner.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/dreamer/numbers.h"
#include "algos/dreamer/reference/returns.h"
#include "base/core/error.h"
#include "base/trace/span.h"
#include "kernels/noise/noise_op.h"

namespace maglev::dreamer {
namespace {

// products of few rows are slow in the loop: two shards where these are enough for each, then
// shards of the most; more than these shards only take memory
constexpr int64_t kLeastSequences = 4, kMostSequences = 8, kMostShards = 16;
// fewest sequences of a shard that are advised for more threads; docs/dreamer.md has their cost
constexpr int64_t kLeastAdvised = 2;

// a device's batch is one shard; a processor's are of sizes alone
MicroBatch parts_of_shards(const Options& o, at::Device device) {
  const int64_t each = shard_sequences(o, device);
  return {sequences_at_once(o.micro_batch, each), device, "sequences of a shard",
          [each](int64_t most) { return sequences_at_once(most, each); }};
}

}  // namespace

int64_t shard_sequences(const Options& o, at::Device device) {
  const int64_t batch = o.batch;
  if (device.is_cuda()) return batch;
  if (o.shard > 0) return std::min(batch, o.shard);
  const int64_t few = std::clamp((batch + 1) / 2, kLeastSequences, kMostSequences);
  return std::min(batch, std::max(few, (batch + kMostShards - 1) / kMostShards));
}

int64_t shard_count(const Options& o, at::Device device) {
  const int64_t each = shard_sequences(o, device);
  return (o.batch + each - 1) / each;
}

std::string for_more_threads(const Options& o, int64_t threads, at::Device device) {
  if (!use_fused(o) || device.is_cuda()) return "";
  // more shards take memory for nothing
  const int64_t shards = std::min(threads, kMostShards);
  const int64_t finer = std::max(kLeastAdvised, (o.batch + shards - 1) / shards);
  return finer < shard_sequences(o, device) ? "dreamer.shard=" + std::to_string(finer) : "";
}

int64_t sequences_at_once(int64_t asked, int64_t count) {
  // parts are of one size: their buffers are
  int64_t at_once = asked > 0 ? std::min(asked, count) : count;
  while (count % at_once != 0) --at_once;
  return at_once;
}

bool use_fused(const Options& o) { return o.fused.value_or(true); }

FusedLearner::FusedLearner(const LearnerOptions& o, LearnerState& state)
    : options_(o),
      state_(&state),
      micro_batch_(parts_of_shards(o.options, state.grad.device())),
      bins_(symexp_bins(state.grad.options())),
      lanes_(at::zeros({shard_count(o.options, state.grad.device()), state.params.size()},
                       state.grad.options())),
      mix_(o.shape, *state.networks),
      weights_(o.precision, state.grad.device()) {
  const auto f32 = state.grad.options();
  const int64_t T = o.options.length, B = o.options.batch, H = o.options.imagination;
  const int64_t S = o.shape.stoch;
  const ActionDistribution actions(o.shape);
  noise_ = {.posterior = at::empty({T, B, S}, f32),
            .prior = at::empty({H, T * B, S}, f32),
            .action = at::empty({H + 1, T * B, actions.numbers(o.shape.actions)}, f32)};
  latents_ = {.deter = at::empty({T, B, o.shape.deter}, f32),
              .stoch = at::empty({T, B, S}, f32.dtype(at::kByte))};
  returns_ = at::empty({H * T * B}, f32);
  figures_ = at::zeros({lanes_.size(0), int64_t(kFigures)}, f32);
  if (!o.shape.decodes)
    for (at::Tensor* t : {&projected_, &token_, &d_projected_})
      *t = at::zeros({T * B, o.shape.token()}, f32);
  micro_batch_.run([this](int64_t at_once) { make_shards(at_once); });
}

void FusedLearner::make_shards(int64_t at_once) {
  const LearnerOptions& o = options_;
  const int64_t T = o.options.length, B = o.options.batch, H = o.options.imagination;
  const int64_t each = shard_sequences(o.options, lanes_.device());
  // those of larger parts go first, and what was made for them
  shards_.clear(), at_once_ = 0;
  weights_ = WeightRows(o.precision, lanes_.device());
  for (int64_t s = 0; s < lanes_.size(0); ++s) {
    const int64_t first = s * each, count = std::min(each, B - first);
    // a replica reads the shared weights, and its gradients are a lane
    auto networks = std::make_shared<Networks>(o.shape, Initializer::none());
    networks->to(lanes_.device());
    const at::Tensor lane = lanes_[s];
    state_->params.bind(*state_->networks, *networks, lane);
    const auto rows = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, T * first, T * count) : all;
    };
    const ShardPlace place{.first = first,
                           .count = count,
                           .at_once = sequences_at_once(at_once, count),
                           .returns = returns_.narrow(0, H * T * first, H * T * count),
                           .figures = figures_[s],
                           .projected = rows(projected_),
                           .token = rows(token_),
                           .d_projected = rows(d_projected_)};
    shards_.push_back(std::make_unique<Shard>(o, std::move(networks), lane, *state_->slow_value,
                                              mix_, weights_, bins_, place));
  }
  at_once_ = at_once;
}

template <class Work>
void FusedLearner::each_shard(const Work& work) {
  // the one shard of a device belongs to this thread and its stream
  if (shards_.size() == 1) return work(0);
  options_.pool->run(int64_t(shards_.size()), [&](int64_t s) {
    at::NoGradGuard no_grad;
    work(s);
  });
}

void FusedLearner::draw_noise() {
  const auto span = trace::stage("noise");
  // numbers of each process lie behind those of the ones before it
  const int64_t rank = rank_of(options_.group);
  const auto fill = [&](UpdateNumbers kind, const at::Tensor& numbers) {
    return update_fill(options_.seed, kind, state_->updates.const_data_ptr<int64_t>(),
                       rank * numbers.numel());
  };
  const bool normal = ActionDistribution(options_.shape).takes_normals();
  const auto draw_action = normal ? noise_normal_ : noise_uniform_;
  if (lanes_.device().is_cuda()) {
    noise_uniform_(noise_.posterior, fill(UpdateNumbers::posterior, noise_.posterior));
    noise_uniform_(noise_.prior, fill(UpdateNumbers::prior, noise_.prior));
    draw_action(noise_.action, fill(UpdateNumbers::action, noise_.action));
    return;
  }
  // threads share them: the posterior's, and those of each imagined step
  const auto of_step = [](const at::Tensor& all, int64_t t, NoiseFill numbers, const auto& draw) {
    at::Tensor step = all[t];
    numbers.first += uint64_t(t * step.numel());
    draw(step, numbers);
  };
  const int64_t H = options_.options.imagination;
  options_.pool->run(H + 2, [&](int64_t part) {
    if (part == 0)
      return noise_uniform_(noise_.posterior, fill(UpdateNumbers::posterior, noise_.posterior));
    of_step(noise_.action, part - 1, fill(UpdateNumbers::action, noise_.action), draw_action);
    if (part <= H)
      of_step(noise_.prior, part - 1, fill(UpdateNumbers::prior, noise_.prior), noise_uniform_);
  });
}

void FusedLearner::learn_agreement() {
  const auto span = trace::stage("agreement");
  at::AutoGradMode with_grad(true);
  const Options& o = options_.options;
  // of all processes' rows
  auto projected = gathered(options_.group, projected_.detach()).detach();
  projected.set_requires_grad(true);
  const auto token = gathered(options_.group, token_);
  const auto weights =
      row_weights_.defined() ? gathered(options_.group, row_weights_) : row_weights_;
  const auto loss = o.redundancy_coef * redundancy_loss(projected, token, o.off_diagonal, weights);
  loss.backward();
  const int64_t rows = projected_.size(0);
  d_projected_.copy_(projected.grad().narrow(0, rank_of(options_.group) * rows, rows));
  figures_[0][kObservation].copy_(loss.detach() * options_.share());
}

at::Tensor FusedLearner::gradients(const Sequences& batch) {
  at::NoGradGuard no_grad;
  const Options& o = options_.options;
  MAGLEV_ASSERT(batch.reward.size(0) == o.length && batch.reward.size(1) == o.batch,
                "batches are of the settings' size");
  // of one that did not come to its end
  given_.reset();
  micro_batch_.run([&](int64_t at_once) {
    if (at_once != at_once_) make_shards(at_once);
    learn(batch);
  });
  reduce_all(state_->optimizer, lanes_, {}, *options_.pool, options_.group);
  return state_->optimizer.gradient();
}

void FusedLearner::learn(const Sequences& batch) {
  draw_noise();
  {
    const auto span = trace::stage("weights");
    mix_.pack();
    weights_.copy();
  }
  if (batch.weight.defined() != row_weights_.defined()) {
    const auto like = [&](const at::Tensor& x) {
      return batch.weight.defined() ? at::empty({x.numel()}, returns_.options()) : at::Tensor();
    };
    row_weights_ = like(batch.weight), return_weights_ = like(returns_);
  }
  const Shard::Update update{batch, noise_, latents_, row_weights_, return_weights_};
  each_shard([&](int64_t s) { shards_[size_t(s)]->first_pass(update); });
  // the range of all returns, in which advantages are measured
  auto range = state_->range.clone();
  {
    const auto span = trace::stage("range");
    const auto [returns, weights] = returns_of_all();
    scale_ = moved_range(range, returns, options_.options.range_rate, weights);
  }
  if (!options_.shape.decodes) learn_agreement();
  each_shard([&](int64_t s) { shards_[size_t(s)]->second_pass(update, scale_); });
  // last, so that whoever runs out of memory may begin anew
  state_->range.copy_(range);
}

std::pair<at::Tensor, at::Tensor> FusedLearner::returns_of_all() {
  if (!options_.group) return {returns_, return_weights_};
  // projections and tokens would be asked of the others once more
  if (given_.defined() && !options_.shape.decodes)
    throw Error(
        "[dreamer] memory does not suffice for an update of this process; set "
        "dreamer.micro_batch, so that all learn from fewer sequences at once");
  const bool weighs = return_weights_.defined();
  if (!given_.defined())
    given_ = gathered(options_.group,
                      weighs ? at::stack({returns_, return_weights_}, 1) : returns_.unsqueeze(1));
  return {given_.select(1, 0), weighs ? given_.select(1, 1) : at::Tensor()};
}

StoredLatents FusedLearner::update(const Sequences& batch, at::Tensor& figures) {
  at::NoGradGuard no_grad;
  LearnerState& s = *state_;
  const Options& o = options_.options;
  gradients(batch);
  s.set_learning_rate(o.lr, o.warmup);
  s.optimizer.clip(s.skip);
  s.optimizer.step(s.lr, *options_.pool);
  s.finish_update(o.slow_rate);

  // figures that are sums add up; losses come first, and their sum
  at::sum_out(figures, figures_, 0);
  if (options_.group) options_.group->sum(figures);
  figures[kTotal].copy_(figures.narrow(0, 0, kTotal).sum());
  figures[kGradNorm].copy_(s.optimizer.norm());
  figures[kRange].copy_(scale_);
  return latents_;
}

}  // namespace maglev::dreamer
