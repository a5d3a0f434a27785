#include "algos/tdmpc2/device/learner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/tdmpc2/policy_prior.h"
#include "kernels/two_hot/two_hot_op.h"

namespace maglev::tdmpc2 {
namespace {

constexpr LogStdBounds kLogStd{.low = float(kLogStdLow), .high = float(kLogStdHigh)};
// elements whose rows begin at 16 bytes in either dtype
constexpr int64_t kRowStep = 8;
// features a row's end may have on a device
constexpr int64_t kWidest = 4096;

at::Tensor in_f32(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? x : x.to(at::kFloat);
}

// of the flat buffer, the n networks whose first one lies at `first`
at::Tensor networks(const at::Tensor& flat, const MlpPlaces& first, int64_t n) {
  const int64_t begin = first.front().begin;
  return flat.narrow(0, begin, n * (first.back().end() - begin));
}

}  // namespace

std::string DeviceLearner::obstacle(const LearnerOptions& options) {
  const ModelShape& s = options.shape;
  if (s.image()) return "the encoder has convolutions";
  if (s.tasks > 0) return "there are several tasks";
  if (s.simnorm != kSimNormGroup) return "simnorm_dim is not 8";
  for (const auto& widths : {s.hidden.encoder, s.head_widths(), std::vector<int64_t>{s.latent}})
    for (int64_t width : widths) {
      if (width % kSimNormGroup != 0) return "a width is not a multiple of 8";
      if (width > kWidest) return "a width is above " + std::to_string(kWidest);
    }
  return "";
}

DeviceLearner::DeviceLearner(const LearnerOptions& options, LearnerState& state)
    : PartsLearner(options, state),
      D_(options.shape.latent),
      A_(options.shape.actions),
      ld_((D_ + A_ + kRowStep - 1) / kRowStep * kRowStep),
      dtype_(options.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat),
      weights_(state.params.data().to(dtype_)),
      weight_grad_(dtype_ == at::kFloat ? state.grad : at::zeros_like(weights_)),
      encoder_(stack(state.model->layout().encoder, 1, DenseEnd::simnorm)),
      dynamics_(stack(state.model->layout().dynamics, 1, DenseEnd::simnorm)),
      reward_(stack(state.model->layout().reward, 1, DenseEnd::none)),
      q_(stack(state.model->layout().q[0], options.shape.num_q, DenseEnd::none,
               options.options.dropout)),
      policy_(stack(state.model->layout().policy, 1, DenseEnd::none)) {
  const Options& o = options.options;
  if (options.shape.episodic)
    termination_.push_back(stack(state.model->layout().termination, 1, DenseEnd::none));
  const auto f32 = state.grad.options();
  consistency_slope_ = at::full({}, 2 * o.consistency_coef / double(D_), f32);
  units_ = at::tensor({1. / double(D_), 1., 1. / double(options.shape.num_q), 1.}).to(f32);
  coefs_ =
      at::tensor({o.consistency_coef, o.reward_coef, o.value_coef, o.termination_coef}).to(f32);
}

DeviceStack DeviceLearner::stack(const MlpPlaces& first, int64_t n, DenseEnd last,
                                 double dropout) const {
  const auto of = [&](const at::Tensor& flat) {
    return stacked(networks(flat, first, n), first, n);
  };
  return {
      of(weights_), of(state_->params.data()), last, dropout, {of(weight_grad_), of(state_->grad)}};
}

DeviceStack DeviceLearner::pair(const at::Tensor& flat, UpdateNumbers kind, double dropout) const {
  const MlpPlaces& first = state_->model->layout().q[0];
  // both whole, one behind the other
  const auto drawn =
      at::index_select(flat.view({options_.shape.num_q, -1}), 0, drawn_pair(kind)).flatten();
  return {stacked(in_products(drawn), first, 2), stacked(drawn, first, 2), DenseEnd::none, dropout};
}

DeviceLearner::Inputs DeviceLearner::inputs(int64_t rows) const {
  Inputs made{.rows = at::empty({rows, ld_}, weights_.options())};
  if (dtype_ != at::kFloat) made.exact = at::empty({rows, D_}, state_->grad.options());
  made.latent = made.exact.defined() ? made.exact : latents_of(made.rows);
  return made;
}

at::Tensor DeviceLearner::latents_of(const at::Tensor& rows) const { return rows.narrow(1, 0, D_); }
at::Tensor DeviceLearner::actions_of(const at::Tensor& rows) const {
  return rows.narrow(1, D_, A_);
}
at::Tensor DeviceLearner::both_of(const at::Tensor& rows) const {
  return rows.narrow(1, 0, D_ + A_);
}
at::Tensor DeviceLearner::in_products(const at::Tensor& x) const {
  return x.scalar_type() == dtype_ ? x : x.to(dtype_);
}

at::Tensor DeviceLearner::row_weights(int64_t steps, const Part& part) const {
  const auto each = rho_.narrow(0, 0, steps) / double(steps * part.batch);
  return each.unsqueeze(1).expand({steps, part.count()}).contiguous().view({-1});
}

SquashedDraw DeviceLearner::act(StackRun& run, const at::Tensor& rows, UpdateNumbers kind,
                                int64_t steps, const Part& part) const {
  const auto head = in_f32(policy_.forward(run)[0]);
  const auto noise = normals(kind, steps, A_, part).flatten(0, 1);
  SquashedDraw draw = squashed_draw(head, noise, kLogStd, options_.options.entropy_of);
  actions_of(rows).copy_(draw.action);
  return draw;
}

at::Tensor DeviceLearner::targets(const Inputs& seen, const Part& part) const {
  const int64_t H = part.rows.action.size(0), B = part.count();
  const auto rows = seen.rows.narrow(0, B, H * B);
  StackRun policy = policy_.run(latents_of(rows));
  act(policy, rows, UpdateNumbers::target_action, H, part);
  const DeviceStack nets = pair(state_->target_q, UpdateNumbers::target_pair, 0);
  StackRun q = nets.run(both_of(rows));
  const auto value = two_hot_value(in_f32(nets.forward(q)), kTwoHot).amin(0);
  const auto goes_on = at::rsub(part.rows.terminated.reshape({-1}), 1);
  return at::addcmul(part.rows.reward.view({-1}), goes_on, value, options_.discount.front());
}

DeviceLearner::ModelPass DeviceLearner::roll_out(const Part& part) const {
  const auto& [obs, action, rewards, terminated, task] = part.rows;
  const int64_t H = action.size(0), B = part.count(), all = H * B;

  // latents of what was seen, of all times: the first begin the rollout, the others are its targets
  const Inputs seen = inputs(all + B);
  StackRun encoder =
      encoder_.run(in_products(obs.reshape({all + B, -1})), latents_of(seen.rows).unsqueeze(0));
  encoder.exact = seen.exact;
  encoder_.forward(encoder);
  const auto wanted = targets(seen, part);

  // roll the latents out from the first observation alone, by the actions that were taken
  const Inputs x = inputs(all + B);
  x.latent.narrow(0, 0, B).copy_(seen.latent.narrow(0, 0, B));
  if (x.exact.defined()) latents_of(x.rows).narrow(0, 0, B).copy_(x.exact.narrow(0, 0, B));
  const auto from = x.rows.narrow(0, 0, all), to = x.rows.narrow(0, B, all);
  actions_of(from).copy_(action.reshape({all, A_}));
  StackRun dynamics = dynamics_.run(both_of(from), latents_of(to).unsqueeze(0));
  if (x.exact.defined()) dynamics.exact = x.exact.narrow(0, B, all);
  for (int64_t t = 0; t < H; ++t) dynamics_.forward(dynamics, t * B, B);

  ModelPass pass{.encoder = encoder,
                 .dynamics = dynamics,
                 .from = from,
                 .to = to,
                 .latents = x.latent,
                 .seen = seen.latent.narrow(0, B, all),
                 .wanted = wanted,
                 .weights = row_weights(H, part),
                 .d_latent = at::empty({all + B, D_}, weights_.options())};
  pass.d_from = pass.d_latent.narrow(0, 0, all), pass.d_to = pass.d_latent.narrow(0, B, all);
  return pass;
}

void DeviceLearner::learn_head(const DeviceStack& net, StackRun& run, const at::Tensor& d_logits,
                               const at::Tensor& d_latent) const {
  net.begin_back(run, in_products(d_logits), d_latent.size(0));
  net.back(run, 0);
  net.learn(run);
  net.input_gradient(run, 0, 0, d_latent, /*add=*/true);
}

at::Tensor DeviceLearner::learn_latents(ModelPass& pass, const Part& part) const {
  const auto error = pass.latents.narrow(0, part.count(), pass.seen.size(0)) - pass.seen;
  const auto weighted = error * pass.weights.unsqueeze(1);
  // gradients of latents begin here: the first ones, that were seen, have no error
  pass.d_latent.narrow(0, 0, part.count()).zero_();
  at::mul_out(pass.d_to, weighted, consistency_slope_);
  return at::dot(error.flatten(), weighted.flatten());
}

at::Tensor DeviceLearner::learn_rewards(ModelPass& pass, const Part& part) const {
  StackRun run = reward_.run(both_of(pass.from));
  auto logits = in_f32(reward_.forward(run));
  const auto loss = two_hot_loss_back_(logits, part.rows.reward.view({-1}), pass.weights,
                                       options_.options.reward_coef, kTwoHot);
  learn_head(reward_, run, logits, pass.d_from);
  return at::dot(loss[0], pass.weights);
}

at::Tensor DeviceLearner::learn_values(ModelPass& pass, const Part& part) const {
  const int64_t n = options_.shape.num_q, H = part.rows.action.size(0);
  StackRun run = q_.run(both_of(pass.from));
  if (options_.options.dropout > 0)
    run.uniform =
        uniforms(UpdateNumbers::value_dropout, n * H, options_.shape.hidden.q.front(), part)
            .view({n, H * part.count(), -1});
  auto logits = in_f32(q_.forward(run));
  const auto loss = two_hot_loss_back_(logits, pass.wanted, pass.weights,
                                       options_.options.value_coef / double(n), kTwoHot);
  learn_head(q_, run, logits, pass.d_from);
  return at::mv(loss, pass.weights).sum();
}

at::Tensor DeviceLearner::learn_terminations(ModelPass& pass, const Part& part) const {
  if (termination_.empty()) return at::zeros({}, pass.weights.options());
  const DeviceStack& net = termination_.front();
  StackRun run = net.run(latents_of(pass.to));
  const auto logit = in_f32(net.forward(run));
  // terminations are as sure at any step and have no such weights
  const auto came = part.rows.terminated.reshape(logit.sizes());
  const double each = 1 / double(part.rows.action.size(0) * part.batch);
  // -log of the probability of what came; its slope is the probability less what came
  const auto loss = at::addcmul(at::softplus(logit), logit, came, -1).sum().mul_(each);
  const auto d_logit = (at::sigmoid(logit) - came).mul_(options_.options.termination_coef * each);
  learn_head(net, run, d_logit, pass.d_to);
  return loss;
}

at::Tensor DeviceLearner::learn_model(const Part& part, at::Tensor& figures) {
  const int64_t B = part.count();
  ModelPass pass = roll_out(part);
  // one after another, latents first: others add to their gradients
  const auto losses = at::stack({learn_latents(pass, part), learn_rewards(pass, part),
                                 learn_values(pass, part), learn_terminations(pass, part)})
                          .mul_(units_);

  // back through the steps, and from the first latents through the encoder
  dynamics_.begin_back(pass.dynamics, pass.d_to.unsqueeze(0), B);
  for (int64_t first = pass.d_to.size(0); (first -= B) >= 0;) {
    dynamics_.back(pass.dynamics, first);
    dynamics_.input_gradient(pass.dynamics, first, 0, pass.d_latent.narrow(0, first, B),
                             /*add=*/true);
  }
  dynamics_.learn(pass.dynamics);
  encoder_.begin_back(pass.encoder, pass.d_latent.narrow(0, 0, B).unsqueeze(0), B);
  encoder_.back(pass.encoder, 0);
  encoder_.learn(pass.encoder);

  figures.narrow(0, kConsistency, 4).add_(losses);
  figures[kTotal].add_(at::dot(losses, coefs_));
  figures[kTarget].add_(pass.wanted.mean(), part.share());
  return pass.latents.unflatten(0, {-1, B});
}

void DeviceLearner::gather(int64_t begin, int64_t end) {
  if (dtype_ == at::kFloat) return;
  auto left = weight_grad_.narrow(0, begin, end - begin);
  state_->grad.narrow(0, begin, end - begin).add_(left);
  left.zero_();
}

at::Tensor DeviceLearner::model_gradients(const Sequences& batch, int64_t at_once,
                                          at::Tensor& figures) {
  at::NoGradGuard no_grad;
  const int64_t end = state_->model->layout().policy_begin();
  state_->grad.narrow(0, 0, end).zero_();
  figures.zero_();
  if (dtype_ != at::kFloat) weights_.copy_(state_->params.data()), weight_grad_.zero_();
  std::vector<at::Tensor> latents;
  for (const Part& part : parts_of(batch, at_once)) {
    latents.push_back(learn_model(part, figures));
    gather(0, end);
  }
  return latents.size() == 1 ? latents.front() : at::cat(latents, 1);
}

DeviceLearner::PolicyPass DeviceLearner::policy_pass(const Part& part,
                                                     const at::Tensor& latents) const {
  const int64_t steps = latents.size(0), rows = steps * part.count();
  const double dropout = options_.options.dropout;
  const auto x = at::empty({rows, ld_}, weights_.options());
  latents_of(x).unflatten(0, {steps, part.count()}).copy_(latents);
  PolicyPass pass{.policy = policy_.run(latents_of(x)),
                  .pair = pair(networks(state_->params.data(), state_->model->layout().q[0],
                                        options_.shape.num_q),
                               UpdateNumbers::policy_pair, dropout)};
  pass.draw = act(pass.policy, x, UpdateNumbers::policy_action, steps, part);
  pass.q = pass.pair.run(both_of(x));
  if (dropout > 0)
    pass.q.uniform =
        uniforms(UpdateNumbers::policy_dropout, 2 * steps, options_.shape.hidden.q.front(), part)
            .view({2, rows, -1});
  pass.logits = in_f32(pass.pair.forward(pass.q));
  pass.value = two_hot_value(pass.logits, kTwoHot).mean(0);
  return pass;
}

void DeviceLearner::learn_policy(PolicyPass& pass, const at::Tensor& scale, const Part& part,
                                 at::Tensor& figures) {
  const int64_t rows = pass.value.size(0), steps = rows / part.count();
  const double entropy = options_.options.entropy_coef, share = part.share();
  const auto weights = row_weights(steps, part);
  // values over their running range: entropy_coef then suits tasks of any scale
  const auto gain = at::add(pass.value / scale, pass.draw.scaled_entropy, entropy);
  figures[kPolicy].sub_(at::dot(gain, weights));
  figures[kEntropy].add_(pass.draw.entropy.mean(), share);
  figures[kQMean].add_(pass.value.mean(), share);

  // through both value networks to the action, and through the draw to the policy
  two_hot_value_back_(pass.logits, weights / scale, -0.5, kTwoHot);
  pass.pair.begin_back(pass.q, in_products(pass.logits), rows);
  pass.pair.back(pass.q, 0);
  auto d_action = at::empty({rows, A_}, weights_.options());
  pass.pair.input_gradient(pass.q, 0, D_, d_action, /*add=*/false);
  const auto d_head = squashed_draw_back(pass.draw, in_f32(d_action), weights, -entropy, kLogStd,
                                         options_.options.entropy_of);
  policy_.begin_back(pass.policy, in_products(d_head).unsqueeze(0), rows);
  policy_.back(pass.policy, 0);
  policy_.learn(pass.policy);
}

void DeviceLearner::policy_gradients(const at::Tensor& latents, const Sequences& batch,
                                     int64_t at_once, at::Tensor& figures) {
  at::NoGradGuard no_grad;
  const auto parts = parts_of(batch, at_once);
  const auto pass_of = [&](const Part& part) {
    return policy_pass(part, cut(latents, 1, part.first, part.count()));
  };
  const int64_t begin = state_->model->layout().policy_begin(), end = state_->grad.size(0);
  state_->grad.narrow(0, begin, end - begin).zero_();
  // a call before may have ended on its way
  if (dtype_ != at::kFloat) weight_grad_.narrow(0, begin, end - begin).zero_();
  for (Figure figure : {kPolicy, kEntropy, kQMean}) figures[figure].zero_();

  // the scale follows the values at step 0 of the whole batch: those of parts are found for it alone
  // and again below
  std::vector<PolicyPass> whole;
  std::vector<at::Tensor> begins;
  for (const Part& part : parts) {
    whole.push_back(pass_of(part));
    begins.push_back(whole.back().value.narrow(0, 0, part.count()));
    if (parts.size() > 1) whole.clear();
  }
  auto scale = state_->scale.clone();
  update_running_scale(scale, of_all(begins), options_.options.tau);
  for (const Part& part : parts) {
    if (parts.size() > 1) {
      // not two at once
      whole.clear();
      whole.push_back(pass_of(part));
    }
    learn_policy(whole.front(), scale, part, figures);
    gather(begin, end);
  }
  // last, so that whoever runs out of memory may begin anew
  state_->scale.copy_(scale);
  figures[kScale].copy_(scale);
}

}  // namespace maglev::tdmpc2
