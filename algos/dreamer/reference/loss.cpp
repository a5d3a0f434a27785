#include "algos/dreamer/reference/loss.h"

#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/dreamer/reference/returns.h"
#include "algos/dreamer/row_weights.h"
#include "base/trace/span.h"

namespace maglev::dreamer {

ReferenceLoss::ReferenceLoss(const Options& options, const ModelShape& shape,
                             const Networks& networks, const Head& slow_value, Group* group)
    : options_(options),
      shape_(shape),
      actions_(shape),
      networks_(&networks),
      slow_value_(&slow_value),
      group_(group),
      bins_(symexp_bins(networks.parameters().front().options())) {}

Observed ReferenceLoss::observe(const Sequences& batch, const at::Tensor& noise) const {
  const auto span = trace::stage("observe");
  const int64_t T = batch.reward.size(0), B = batch.reward.size(1);
  const Rssm& rssm = *networks_->rssm;
  const auto tokens = networks_->encoder->forward(batch.seen.rows()).view({T, B, -1});

  // from the stored state on, step by step; where an episode begins, from zeros
  Latent latent{batch.deter, one_hot(batch.stoch, shape_.classes, bins_.options()).flatten(1)};
  std::vector<at::Tensor> deters, stochs, posteriors;
  for (int64_t t = 0; t < T; ++t) {
    const auto keep = (1 - batch.is_first[t]).unsqueeze(1);
    latent = {latent.deter * keep, latent.stoch * keep};
    latent.deter = rssm.next_deter(latent, batch.action[t] * keep);
    posteriors.push_back(rssm.posterior(latent.deter, tokens[t]));
    latent.stoch = drawn_stoch(posteriors.back(), noise[t]);
    deters.push_back(latent.deter), stochs.push_back(latent.stoch);
  }
  const Latent all{at::stack(deters), at::stack(stochs)};
  return {.token = tokens,
          .latent = all,
          .posterior = at::stack(posteriors),
          .prior = rssm.prior(all.deter)};
}

void ReferenceLoss::model_losses(const Sequences& batch, Terms& terms) const {
  const auto span = trace::stage("heads");
  const auto& [token, latent, posterior, prior] = terms.observed;
  const Options& o = options_;
  const auto feature = latent.feature();
  const at::Tensor& weight = batch.weight;
  const auto rows_weight = weight.defined() ? weight.flatten() : weight;

  // what was seen, got and ended can be told from the states
  if (o.objective == Objective::reconstruction) {
    const Latent rows{latent.deter.flatten(0, 1), latent.stoch.flatten(0, 1)};
    const auto errors = networks_->decoder->loss(rows, batch.seen.rows());
    terms.observation = o.reconstruction_coef * weighted(errors, rows_weight).mean();
  } else {
    const auto projected = networks_->projector->forward(feature.flatten(0, 1));
    terms.observation = o.redundancy_coef * redundancy(projected, token.flatten(0, 1), rows_weight);
  }
  const auto rewards = two_hot_code(batch.reward, bins_);
  terms.reward =
      o.reward_coef *
      weighted(cross_entropy(networks_->reward->forward(feature), rewards), weight).mean();
  const auto going_on = (1 - batch.terminated) * o.discount();
  terms.going_on =
      o.continue_coef * at::binary_cross_entropy_with_logits(
                            networks_->going_on->forward(feature).squeeze(-1), going_on, weight);

  // the prior goes to the posterior, and less so the posterior to the prior; neither below free
  // nats
  const auto dynamics = divergence(posterior.detach(), prior);
  const auto representation = divergence(posterior, prior.detach());
  const auto mean = [&](const at::Tensor& x) { return weighted(x, weight).mean(); };
  terms.dynamics = o.dynamics_coef * mean(dynamics.clamp_min(o.free_nats));
  terms.representation = o.representation_coef * mean(representation.clamp_min(o.free_nats));
  terms.divergence = mean(dynamics.detach());
}

at::Tensor ReferenceLoss::redundancy(const at::Tensor& projected, const at::Tensor& token,
                                     const at::Tensor& weight) const {
  if (!group_) return redundancy_loss(projected, token, options_.off_diagonal, weight);
  // others' rows are constants here, and each process has the gradient of its own
  const auto others = gathered(group_, projected.detach());
  const int64_t rows = projected.size(0), begin = group_->rank() * rows, end = begin + rows;
  const auto all =
      at::cat({others.narrow(0, 0, begin), projected, others.narrow(0, end, others.size(0) - end)});
  const auto weights = weight.defined() ? gathered(group_, weight) : weight;
  const auto loss =
      redundancy_loss(all, gathered(group_, token.detach()), options_.off_diagonal, weights);
  const double processes = group_->size();
  return processes * loss - (processes - 1) * loss.detach();
}

Imagined ReferenceLoss::imagine(const Latent& starts, const UpdateNoise& noise) const {
  const auto span = trace::stage("dream");
  // nothing is learned through the steps: the policy by likelihood alone (Williams, 1992)
  at::NoGradGuard no_grad;
  const int64_t H = options_.imagination;
  Latent latent = starts.detached();
  std::vector<at::Tensor> features, actions;
  for (int64_t t = 0; t <= H; ++t) {
    features.push_back(latent.feature());
    actions.push_back(actions_.draw(networks_->policy->forward(features.back()), noise.action[t]));
    if (t == H) break;
    latent.deter = networks_->rssm->next_deter(latent, actions.back());
    latent.stoch = drawn_stoch(networks_->rssm->prior(latent.deter), noise.prior[t]);
  }
  Imagined imagined{.feature = at::stack(features), .action = at::stack(actions)};
  imagined.reward = binned_mean(networks_->reward->forward(imagined.feature), bins_);
  imagined.value = binned_mean(networks_->value->forward(imagined.feature), bins_);
  // the discount is in the chance that the episode goes on
  imagined.terminated = 1 - at::sigmoid(networks_->going_on->forward(imagined.feature).squeeze(-1));
  imagined.returns = lambda_returns({.reward = imagined.reward,
                                     .value = imagined.value,
                                     .terminated = imagined.terminated,
                                     .ended = at::zeros_like(imagined.reward)},
                                    /*discount=*/1, options_.lambda);
  return imagined;
}

at::Tensor ReferenceLoss::value_loss(const at::Tensor& feature, const at::Tensor& target) const {
  const auto span = trace::stage("critic");
  at::Tensor code;
  {
    // what the critic should say, as two-hot codes: the lambda returns R_t, and the slow network's
    // values, which keep it from running after itself
    at::NoGradGuard no_grad;
    const auto slow = binned_mean(slow_value_->forward(feature), bins_);
    code = two_hot_code(target, bins_) + options_.slow_coef * two_hot_code(slow, bins_);
  }
  // critic: -ln p(R_t | s_t), the cross-entropy of its bins
  return cross_entropy(networks_->value->forward(feature), code);
}

void ReferenceLoss::actor_critic_losses(const Imagined& imagined, const at::Tensor& starts,
                                        at::Tensor& range, Terms& terms) const {
  const auto span = trace::stage("actor");
  const Options& o = options_;
  const int64_t H = o.imagination;
  const auto first = [H](const at::Tensor& x) { return x.narrow(0, 0, H); };
  // a step counts by the chance that it is reached, the first one included, and as its start does
  const auto weight = weighted(first(at::cumprod(1 - imagined.terminated, 0)), starts);

  // advantages (R_t - v(s_t)) / max(1, S), S the moving range of returns from the 5th to the 95th
  // percentile
  const auto& returns = imagined.returns;
  const auto counted = starts.defined() ? starts.expand_as(returns).flatten() : starts;
  terms.range = moved_range(range, gathered(group_, returns.flatten()), o.range_rate,
                            starts.defined() ? gathered(group_, counted) : counted);
  const auto advantage = (imagined.returns - first(imagined.value)) / terms.range;

  // actor: -(advantage ln p(a_t | s_t) + eta entropy), by likelihood ratios for any actions
  const auto feature = first(imagined.feature);
  const auto head = networks_->policy->forward(feature);
  const auto entropy = actions_.entropy(head);
  const auto gain =
      actions_.log_prob(head, first(imagined.action)) * advantage + o.entropy_coef * entropy;
  terms.policy = o.policy_coef * -(weight * gain).mean();

  // critic, to the lambda returns of the same steps
  terms.value = o.value_coef * (weight * value_loss(feature, imagined.returns)).mean();
  terms.entropy = weighted(entropy.detach(), starts).mean();
  terms.mean_return = weighted(returns, starts).mean();
}

void ReferenceLoss::replay_value_loss(const Sequences& batch, const at::Tensor& returns,
                                      Terms& terms) const {
  const int64_t T = batch.reward.size(0);
  // critic on what was replayed: rewards that were got, and behind them what was imagined;
  // gradients reach the world model
  const auto target = lambda_returns({.reward = batch.reward,
                                      .value = returns,
                                      .terminated = batch.terminated,
                                      .ended = batch.ended},
                                     options_.discount(), options_.lambda);
  const auto feature = terms.observed.latent.feature().narrow(0, 0, T - 1);
  const auto goes_on = 1 - batch.ended.narrow(0, 0, T - 1);
  const auto weight = batch.weight.defined() ? goes_on * batch.weight.narrow(0, 0, T - 1) : goes_on;
  terms.replay_value = options_.replay_value_coef * (weight * value_loss(feature, target)).mean();
}

ReferenceLoss::Terms ReferenceLoss::compute(const Sequences& batch, const UpdateNoise& noise,
                                            at::Tensor& range) const {
  at::AutoGradMode with_grad(true);
  const int64_t T = batch.reward.size(0), B = batch.reward.size(1);
  Terms terms;
  terms.observed = observe(batch, noise.posterior);
  model_losses(batch, terms);
  // every state of the batch is the start of a dream
  const Latent& latent = terms.observed.latent;
  const Imagined imagined =
      imagine({latent.deter.flatten(0, 1), latent.stoch.flatten(0, 1)}, noise);
  actor_critic_losses(imagined, batch.weight.defined() ? batch.weight.flatten() : batch.weight,
                      range, terms);
  replay_value_loss(batch, imagined.returns[0].view({T, B}), terms);
  terms.total = terms.observation + terms.reward + terms.going_on + terms.dynamics +
                terms.representation + terms.policy + terms.value + terms.replay_value;
  return terms;
}

}  // namespace maglev::dreamer
