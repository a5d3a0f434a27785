#include "algos/dreamer/fused/shard.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/dreamer/row_weights.h"
#include "base/trace/span.h"
#include "kernels/action_head/action_head_op.h"
#include "kernels/lambda_returns/lambda_returns_op.h"
#include "kernels/products/products_op.h"
#include "kernels/symexp_bins/symexp_bins_op.h"

namespace maglev::dreamer {

Shard::Shard(const LearnerOptions& o, std::shared_ptr<Networks> networks, const at::Tensor& lane,
             const Head& slow_value, const MixInputs& mix, WeightRows& weights,
             const at::Tensor& bins, const ShardPlace& place)
    : options_(o.options),
      shape_(o.shape),
      networks_(std::move(networks)),
      place_(place),
      products_(weights.products()),
      T_(o.options.length),
      m_(place.at_once),
      n_(T_ * m_),
      batch_(double(o.batch_of_all())),
      rows_(double(T_) * batch_),
      dream_rows_(rows_ * double(o.options.imagination)),
      bins_(bins),
      lane_(lane),
      scratch_(n_ * o.options.imagination, std::max(o.shape.units, o.shape.hidden), bins.options()),
      core_(o.shape, *networks_, mix, weights),
      sight_(o.shape, *networks_, o.precision),
      scan_(o.shape, *networks_, core_, weights, {.rows = m_, .slots = T_}),
      prior_(*networks_->rssm->named_children()["prior"], {n_, 1}, weights),
      dream_(o.options, o.shape, *networks_, slow_value, core_, weights, bins, n_) {
  const auto f32 = bins.options();
  const int64_t H = options_.imagination;
  if (networks_->projector) {
    projector_ = weight_of(*networks_->projector, "weight");
    projector_forward_ = weights.of(projector_.value.t());
    projector_back_ = weights.of(projector_.value);
  }
  divergence_ = at::empty({n_}, f32), d_probs_ = at::empty({n_, shape_.flat_stoch()}, f32);
  loss_ = at::empty({H * n_}, f32), entropy_ = at::empty_like(loss_);
  weight_ = at::empty({H + 1, n_}, f32);
  replayed_logits_ = at::empty({n_ - m_, kBins}, f32);
  replayed_returns_ = at::empty({T_ - 1, m_}, f32);
}

at::Tensor Shard::part(const at::Tensor& x) const {
  return x.defined() ? x.narrow(1, place_.first + begun_, m_).contiguous() : x;
}

at::Tensor Shard::rows_of(const at::Tensor& place) const {
  return place.narrow(0, T_ * begun_, n_);
}

at::Tensor Shard::returns_of(const at::Tensor& place) const {
  const int64_t H = options_.imagination;
  return place.narrow(0, H * T_ * begun_, H * n_).view({H, n_});
}

template <class Work>
void Shard::each_part(const Work& work) {
  for (begun_ = 0; begun_ < place_.count; begun_ += m_) work();
  begun_ = 0;
}

void Shard::first_pass(const Update& update) {
  at::NoGradGuard no_grad;
  lane_.zero_(), place_.figures.zero_();
  if (in_parts()) {
    // returns, and without a decoder projections and tokens: all that the second pass waits for
    each_part([&] { look_ahead(update, /*learn=*/false); });
    return;
  }
  look_ahead(update, /*learn=*/true);
  learn_model(update.batch);
  // without a decoder the way back through the states waits for the whole batch
  if (networks_->decoder) learn_states();
}

void Shard::second_pass(const Update& update, const at::Tensor& range) {
  at::NoGradGuard no_grad;
  if (in_parts()) {
    // each part goes the way there again, as its buffers have held others' since
    each_part([&] {
      look_ahead(update, /*learn=*/true);
      learn_model(update.batch);
      learn_policy(range);
      learn_states();
    });
    return;
  }
  learn_policy(range);
  if (!networks_->decoder) learn_states();
}

void Shard::look_ahead(const Update& update, bool learn) {
  const auto& [batch, noise, latents, row_weights, return_weights] = update;
  const int64_t H = options_.imagination, B = batch.reward.size(1), first = place_.first + begun_;
  const auto sequences = [&](const at::Tensor& x) { return x.narrow(0, first, m_); };

  // how much its rows count, and the dreams from them
  row_weight_ = batch.weight.defined() ? part(batch.weight).flatten() : at::Tensor();
  if (row_weight_.defined()) {
    const int64_t rows = T_ * place_.first, count = T_ * place_.count;
    rows_of(row_weights.narrow(0, rows, count)).copy_(row_weight_);
    returns_of(return_weights.narrow(0, H * rows, H * count)).copy_(row_weight_.expand({H, n_}));
  }

  // states of all steps
  const auto encoded = [&] {
    const auto span = trace::stage("encode");
    return sight_.encode(Observation{part(batch.seen.image), part(batch.seen.vector)}.rows(),
                         learn);
  };
  const auto tokens = encoded();
  {
    const auto span = trace::stage("observe");
    scan_.forward({.tokens = tokens,
                   .action = part(batch.action),
                   .is_first = part(batch.is_first),
                   .deter = sequences(batch.deter),
                   .stoch = sequences(batch.stoch),
                   .uniforms = part(noise.posterior)});
    const auto stored = [&](const at::Tensor& t) { return t.narrow(1, first, m_); };
    stored(latents.deter).copy_(scan_.deter().unflatten(0, {T_, m_}));
    stored(latents.stoch).copy_(scan_.category());
  }

  // every one is the start of a dream
  const auto dreamed = [&](const at::Tensor& x, int64_t steps) {
    return x.view({steps * T_, B, -1}).narrow(1, first, m_).reshape({steps, n_, -1}).contiguous();
  };
  {
    const auto span = trace::stage("dream");
    dream_.imagine(scan_.feature(), {dreamed(noise.prior, H), dreamed(noise.action, H + 1)});
    auto found = returns();
    lambda_returns_({.reward = dream_.reward_mean(),
                     .value = dream_.value_mean(),
                     .terminated = dream_.terminated(),
                     .ended = {},
                     .discount = 1,
                     .lambda = options_.lambda},
                    found);
  }

  // what states say of tokens agrees with them over all rows of the batch, and so over all shards
  if (networks_->decoder) return;
  at::Tensor projected = rows_of(place_.projected);
  write_product(projected, scan_.feature(), projector_forward_, products_);
  rows_of(place_.token).copy_(tokens);
}

void Shard::learn_model(const Sequences& batch) {
  // losses, whose gradients meet in the features
  learn_divergence();
  learn_replayed_values(batch);
  learn_values();
  learn_heads(batch);
  if (!networks_->decoder) return;
  const auto span = trace::stage("decode");
  const Observation seen = Observation{part(batch.seen.image), part(batch.seen.vector)}.rows();
  add(kObservation, sight_.decode(scan_.feature(), seen, options_.reconstruction_coef / rows_,
                                  row_weight_, scan_.d_feature()));
}

void Shard::learn_states() {
  const auto span = trace::stage("back");
  if (networks_->projector) {
    const auto d_projected = rows_of(place_.d_projected);
    add_product(scan_.d_feature(), d_projected, projector_back_, products_);
    add_product(projector_.gradient, d_projected.t(), scan_.feature(), products_);
  }
  scan_.back(d_probs_, scratch_);
  sight_.encode_back(scan_.d_tokens());
}

void Shard::learn_divergence() {
  const auto span = trace::stage("prior");
  const Options& o = options_;
  prior_.forward(0, scan_.deter());
  categorical_divergence({.S = shape_.stoch, .C = shape_.classes, .unimix = shape_.unimix},
                         {.posterior = scan_.probs(),
                          .prior = prior_.out(0),
                          .bias = prior_.bias(),
                          .free = o.free_nats,
                          .to_prior = o.dynamics_coef / rows_,
                          .to_posterior = o.representation_coef / rows_},
                         divergence_, prior_.out(0), d_probs_);
  if (row_weight_.defined())
    for (at::Tensor d : {prior_.out(0), d_probs_}) d.mul_(row_weight_.unsqueeze(1));
  prior_.back(prior_.out(0), scan_.deter(), scratch_, scan_.d_deter());
  const auto counted = weighted(divergence_.clamp_min(o.free_nats), row_weight_).sum() / rows_;
  add(kDynamics, o.dynamics_coef * counted);
  add(kRepresentation, o.representation_coef * counted);
  add(kDivergence, weighted(divergence_, row_weight_).sum() / rows_);
}

void Shard::learn_replayed_values(const Sequences& batch) {
  const auto span = trace::stage("critic");
  const Options& o = options_;
  const int64_t rows = n_ - m_;
  // rewards that were got, and behind them what was imagined
  const auto ended = part(batch.ended);
  lambda_returns_({.reward = part(batch.reward),
                   .value = returns()[0].view({T_, m_}),
                   .terminated = part(batch.terminated),
                   .ended = ended,
                   .discount = o.discount(),
                   .lambda = o.lambda},
                  replayed_returns_);
  auto weight = (1 - ended.narrow(0, 0, T_ - 1)).flatten();
  if (row_weight_.defined()) weight = weight * row_weight_.narrow(0, 0, rows);
  // the dream begins at these rows, so the value network has seen them
  replayed_logits_.copy_(dream_.value.all_out().narrow(0, 0, rows));
  auto loss = loss_.narrow(0, 0, rows);
  const double factor = o.replay_value_coef / (double(T_ - 1) * batch_);
  symexp_loss_(bins_, replayed_logits_, dream_.value.bias(),
               {.target = replayed_returns_,
                .second = dream_.slow_mean()[0].narrow(0, 0, rows),
                .second_weight = o.slow_coef,
                .weight = weight,
                .factor = factor},
               loss);
  add(kReplayValue, factor * at::dot(weight, loss));
  dream_.value.back(replayed_logits_, scan_.feature().narrow(0, 0, rows), scratch_,
                    scan_.d_feature().narrow(0, 0, rows));
}

void Shard::learn_values() {
  const auto span = trace::stage("critic");
  const Options& o = options_;
  const int64_t rows = o.imagination * n_;
  // a step counts by the chance that it is reached, the first one included, and as its start does
  at::cumprod_out(weight_, 1 - dream_.terminated(), 0);
  if (row_weight_.defined()) weight_.mul_(row_weight_);
  const auto weight = weight_.narrow(0, 0, o.imagination).view({rows});
  auto logits = dream_.value.all_out().narrow(0, 0, rows);
  const double factor = o.value_coef / dream_rows_;
  symexp_loss_(bins_, logits, dream_.value.bias(),
               {.target = returns(),
                .second = dream_.slow_mean().narrow(0, 0, o.imagination),
                .second_weight = o.slow_coef,
                .weight = weight,
                .factor = factor},
               loss_);
  add(kValue, factor * at::dot(weight, loss_));
  dream_.value.back(logits, dream_.feature().narrow(0, 0, rows), scratch_);
}

void Shard::learn_heads(const Sequences& batch) {
  const auto span = trace::stage("heads");
  const Options& o = options_;
  // of the dream's first step, which is the replayed one
  auto logits = dream_.reward.all_out().narrow(0, 0, n_);
  auto loss = loss_.narrow(0, 0, n_);
  const double factor = o.reward_coef / rows_;
  symexp_loss_(
      bins_, logits, dream_.reward.bias(),
      {.target = part(batch.reward), .second = {}, .weight = row_weight_, .factor = factor}, loss);
  add(kReward, factor * weighted(loss, row_weight_).sum());
  dream_.reward.back(logits, scan_.feature(), scratch_, scan_.d_feature());

  const auto goes_on = dream_.going_on.all_out().narrow(0, 0, n_) + dream_.going_on.bias();
  const auto target = ((1 - part(batch.terminated)) * o.discount()).view({n_, 1});
  const double share = o.continue_coef / rows_;
  const auto weight = row_weight_.defined() ? row_weight_.unsqueeze(1) : row_weight_;
  add(kContinue, share * at::binary_cross_entropy_with_logits(goes_on, target, weight, {},
                                                              at::Reduction::Sum));
  dream_.going_on.back(weighted((goes_on.sigmoid() - target) * share, weight), scan_.feature(),
                       scratch_, scan_.d_feature());
}

void Shard::learn_policy(const at::Tensor& range) {
  const auto span = trace::stage("actor");
  const Options& o = options_;
  const int64_t rows = o.imagination * n_;
  const auto first = [rows](const at::Tensor& x) { return x.flatten().narrow(0, 0, rows); };
  at::Tensor head = dream_.policy.all_out().narrow(0, 0, rows);
  action_loss({head, dream_.policy.bias(), dream_.choices()},
              {.action = dream_.action().flatten(0, 1).narrow(0, 0, rows),
               .returns = first(returns()),
               .value = first(dream_.value_mean()),
               .weight = first(weight_),
               .range = range,
               .factor = o.policy_coef / dream_rows_,
               .entropy_coef = o.entropy_coef},
              loss_, entropy_, head);
  add(kPolicy, loss_.sum());
  add(kReturn, weighted(returns(), row_weight_).sum() / dream_rows_);
  add(kEntropy, weighted(entropy_.view({o.imagination, n_}), row_weight_).sum() / dream_rows_);
  dream_.policy.back(head, dream_.feature().narrow(0, 0, rows), scratch_);
}

}  // namespace maglev::dreamer
