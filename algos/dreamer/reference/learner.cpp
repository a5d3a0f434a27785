#include "algos/dreamer/reference/learner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/trace/span.h"
#include "kernels/noise/noise_op.h"

namespace maglev::dreamer {

ReferenceLearner::ReferenceLearner(const LearnerOptions& options, LearnerState& state)
    : options_(options),
      state_(&state),
      loss_(options.options, options.shape, *state.networks, *state.slow_value, options.group) {
  // autograd adds into the flat gradient
  state.params.bind(*state.networks, *state.networks, state.grad);
}

UpdateNoise ReferenceLearner::noise(int64_t T, int64_t B) const {
  const auto span = trace::stage("noise");
  const int64_t H = options_.options.imagination, S = options_.shape.stoch;
  // numbers of each process lie behind those of the ones before it
  const int64_t rank = rank_of(options_.group);
  const auto fill = [&](UpdateNumbers kind, const at::Tensor& numbers) {
    return update_fill(options_.seed, kind, state_->updates.const_data_ptr<int64_t>(),
                       rank * numbers.numel());
  };
  const auto empty = [&](at::IntArrayRef sizes) {
    return at::empty(sizes, state_->grad.options());
  };
  const ActionDistribution actions(options_.shape);
  UpdateNoise noise{.posterior = empty({T, B, S}),
                    .prior = empty({H, T * B, S}),
                    .action = empty({H + 1, T * B, actions.numbers(options_.shape.actions)})};
  noise_uniform_(noise.posterior, fill(UpdateNumbers::posterior, noise.posterior));
  noise_uniform_(noise.prior, fill(UpdateNumbers::prior, noise.prior));
  if (actions.takes_normals())
    noise_normal_(noise.action, fill(UpdateNumbers::action, noise.action));
  else noise_uniform_(noise.action, fill(UpdateNumbers::action, noise.action));
  return noise;
}

StoredLatents ReferenceLearner::update(const Sequences& batch, at::Tensor& figures) {
  LearnerState& s = *state_;
  const Options& o = options_.options;
  const int64_t T = batch.reward.size(0), B = batch.reward.size(1);

  // one loss, one way back, one optimiser for everything
  s.grad.zero_();
  const auto terms = loss_.compute(batch, noise(T, B), s.range);
  // with other processes its means are shares of the means over all of theirs
  {
    const auto span = trace::stage("back");
    (terms.total * options_.share()).backward();
  }
  s.set_learning_rate(o.lr, o.warmup);
  reduce_all(s.optimizer, s.grad, {}, *options_.pool, options_.group);
  s.optimizer.clip(s.skip);
  s.optimizer.step(s.lr, *options_.pool);
  s.finish_update(o.slow_rate);

  at::NoGradGuard no_grad;
  // in the order of Figure
  figures.copy_(at::stack({terms.observation, terms.reward, terms.going_on, terms.dynamics,
                           terms.representation, terms.policy, terms.value, terms.replay_value,
                           terms.total, s.optimizer.norm(), terms.divergence, terms.entropy,
                           terms.mean_return, terms.range}));
  if (options_.group) options_.group->sum(figures.mul_(options_.share()));
  const Latent& latent = terms.observed.latent;
  const auto stoch = latent.stoch.detach().unflatten(-1, {options_.shape.stoch, -1}).argmax(-1);
  return {.deter = latent.deter.detach(), .stoch = stoch.to(at::kByte)};
}

}  // namespace maglev::dreamer
