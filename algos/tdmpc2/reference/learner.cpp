#include "algos/tdmpc2/reference/learner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/tdmpc2/policy_prior.h"
#include "engine/nn/autocast.h"
#include "kernels/noise/noise_op.h"
#include "kernels/two_hot/two_hot_op.h"

namespace maglev::tdmpc2 {
namespace {

at::Tensor rows_of(const at::Tensor& x) { return x.defined() ? x.flatten(0, 1) : x; }

}  // namespace

ReferenceLearner::ReferenceLearner(const LearnerOptions& options, LearnerState& state)
    : options_(options), state_(&state) {
  const ModelLayout& layout = state.model->layout();
  const int64_t n = options.shape.num_q, begin = layout.q_begin(),
                count = layout.q_end() - layout.q_begin();
  // autograd adds into the flat gradient; views serve where weights get no gradient
  const auto online = state.params.data().narrow(0, begin, count);
  state.params.bind(*state.model, *state.model, state.grad);
  q_ = stacked(online, layout.q[0], n);
  target_q_ = stacked(state.target_q, layout.q[0], n);

  // rho^t weights the losses, gamma is of each task, and a draw picks one pair of value networks
  const auto f32 = state.params.data().options();
  rho_ = at::pow(options.options.rho, at::arange(options.options.horizon + 1, f32));
  discount_ = at::tensor(options.discount).to(f32.device());
  pairs_ = at::zeros({pair_count(n), 2}, at::kLong);
  for (int64_t i = 0, p = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j, ++p) pairs_[p][0] = i, pairs_[p][1] = j;
  pairs_ = pairs_.to(f32.device());
}

at::Tensor ReferenceLearner::normals(UpdateNumbers kind, at::IntArrayRef sizes) const {
  auto out = at::empty(sizes, state_->grad.options());
  noise_normal_(out, update_fill(options_.seed, kind, state_->updates.const_data_ptr<int64_t>()));
  return out;
}

at::Tensor ReferenceLearner::uniforms(UpdateNumbers kind, at::IntArrayRef sizes) const {
  auto out = at::empty(sizes, state_->grad.options());
  noise_uniform_(out, update_fill(options_.seed, kind, state_->updates.const_data_ptr<int64_t>()));
  return out;
}

at::Tensor ReferenceLearner::keep(UpdateNumbers kind, int64_t nets, int64_t steps,
                                  int64_t rows) const {
  const double share = options_.options.dropout;
  if (share == 0) return {};
  // what is kept is scaled up, so that its mean stays what it was
  const auto u = uniforms(kind, {nets, steps * rows, options_.shape.mlp_dim});
  return (u >= share).to(at::kFloat) * (1 / (1 - share));
}

at::Tensor ReferenceLearner::drawn_pair(UpdateNumbers kind) const {
  const int64_t pairs = pairs_.size(0);
  // a uniform close to 1 may round up to the number of pairs
  const auto place = (uniforms(kind, {1}) * double(pairs)).to(at::kLong).clamp_max(pairs - 1);
  return at::index_select(pairs_, 0, place).flatten();
}

at::Tensor ReferenceLearner::encode(const Sequences& batch, int64_t first, int64_t count) const {
  const WorldModel& model = *state_->model;
  const auto obs = batch.obs.narrow(0, first, count);
  if (!options_.shape.image()) return model.encode(obs, embedded(batch.task, count));
  // shifts of all times are drawn, so that a time's does not depend on which times are encoded
  const int64_t steps = batch.obs.size(0), rows = batch.obs.size(1);
  const auto shift = uniforms(UpdateNumbers::image_shift, {steps, rows, 2}).narrow(0, first, count);
  return model.encode_image(obs.flatten(0, 1), shift.flatten(0, 1)).view({count, rows, -1});
}

at::Tensor ReferenceLearner::embedded(const at::Tensor& task, int64_t steps) const {
  if (!task.defined()) return {};
  const auto e = state_->model->embedding(task);
  return e.unsqueeze(0).expand({steps, e.size(0), e.size(1)});
}

at::Tensor ReferenceLearner::mask_of(const at::Tensor& task) const {
  return task.defined() ? at::index_select(options_.action_mask, 0, task) : at::Tensor();
}

at::Tensor ReferenceLearner::discount_of_rows(const at::Tensor& task) const {
  return task.defined() ? at::index_select(discount_, 0, task) : discount_;
}

at::Tensor ReferenceLearner::pair_logits(const StackedMlp& nets, const at::Tensor& pair,
                                         const at::Tensor& x, const at::Tensor& keep) const {
  if (options_.options.prune) return stacked_forward(picked(nets, pair), x, keep).to(at::kFloat);
  // the plain way: all networks, most of them for nothing
  at::Tensor all_keep;
  if (keep.defined()) {
    all_keep = at::ones({options_.shape.num_q, x.size(0), keep.size(2)}, keep.options());
    all_keep = all_keep.index_copy(0, pair, keep);
  }
  return at::index_select(stacked_forward(nets, x, all_keep), 0, pair).to(at::kFloat);
}

ReferenceLearner::Targets ReferenceLearner::targets(const Sequences& batch) const {
  at::NoGradGuard no_grad;
  const int64_t H = batch.action.size(0), B = batch.action.size(1), A = options_.shape.actions;
  const WorldModel& model = *state_->model;
  Autocast guard(options_.precision, state_->grad.device());
  // latents of what was seen next, and an action of the policy prior there
  const auto e = embedded(batch.task, H);
  const auto z = encode(batch, 1, H).to(at::kFloat);
  const auto head = model.policy(z, e).to(at::kFloat);
  const auto draw =
      draw_policy(head, normals(UpdateNumbers::target_action, {H, B, A}), mask_of(batch.task));
  // q = r + gamma (1 - terminated) times the lesser of two target networks; no planning in it
  const auto logits = pair_logits(target_q_, drawn_pair(UpdateNumbers::target_pair),
                                  rows_of(joined(z, draw.action, e)), {});
  const auto value = two_hot_value_reference(logits, kTwoHot).amin(0).view({H, B});
  return {batch.reward + discount_of_rows(batch.task) * (1 - batch.terminated) * value, z};
}

at::Tensor ReferenceLearner::model_losses(const Sequences& batch, const Targets& targets,
                                          at::Tensor& figures) {
  at::AutoGradMode with_grad(true);
  const Options& o = options_.options;
  const WorldModel& model = *state_->model;
  const int64_t H = batch.action.size(0), B = batch.action.size(1), n = options_.shape.num_q;
  const auto rho = rho_.narrow(0, 0, H);
  const auto e = embedded(batch.task, H), one = embedded(batch.task, 1);

  // roll the latents out from the first observation alone, by the actions that were taken
  std::vector<at::Tensor> latents;
  at::Tensor reward_logits, q_logits, termination_logits;
  {
    Autocast guard(options_.precision, state_->grad.device());
    latents.push_back(encode(batch, 0, 1).to(at::kFloat));
    for (int64_t t = 0; t < H; ++t)
      latents.push_back(
          model.next(latents.back(), batch.action.narrow(0, t, 1), one).to(at::kFloat));
  }
  const auto z = at::cat(latents, 0), from = z.narrow(0, 0, H), to = z.narrow(0, 1, H);
  // reward and value where an action is taken, termination where it led
  {
    Autocast guard(options_.precision, state_->grad.device());
    reward_logits = model.reward(from, batch.action, e).to(at::kFloat);
    q_logits = stacked_forward(model.stacked_q(), rows_of(joined(from, batch.action, e)),
                               keep(UpdateNumbers::value_dropout, n, H, B))
                   .to(at::kFloat)
                   .view({n, H, B, kBins});
    if (options_.shape.episodic) termination_logits = model.termination(to, e).to(at::kFloat);
  }

  // joint-embedding prediction, reward and value: mean over the batch, weighted by rho^t
  const auto consistency =
      ((to - targets.latent).square().mean(at::IntArrayRef{1, 2}) * rho).sum() / H;
  const auto reward = (two_hot_loss(reward_logits, batch.reward, kTwoHot).mean(1) * rho).sum() / H;
  const auto wanted = targets.value.unsqueeze(0).expand({n, H, B});
  const auto value = (two_hot_loss(q_logits, wanted, kTwoHot).mean(2) * rho).sum() / (H * n);
  // terminations are as sure at any step and have no such weights
  auto termination = at::zeros_like(value);
  if (options_.shape.episodic)
    termination = at::binary_cross_entropy_with_logits(termination_logits, batch.terminated);
  const auto total = o.consistency_coef * consistency + o.reward_coef * reward +
                     o.value_coef * value + o.termination_coef * termination;
  total.backward();

  at::NoGradGuard no_grad;
  figures.narrow(0, kConsistency, kTotal + 1)
      .copy_(at::stack({consistency, reward, value, termination, total}));
  figures[kTarget].copy_(targets.value.mean());
  return z.detach();
}

void ReferenceLearner::policy_loss(const at::Tensor& latents, const at::Tensor& task,
                                   at::Tensor& figures) {
  at::AutoGradMode with_grad(true);
  const WorldModel& model = *state_->model;
  const int64_t steps = latents.size(0), B = latents.size(1), A = options_.shape.actions;
  // the policy's loss moves the policy alone
  auto e = embedded(task, steps);
  if (e.defined()) e = e.detach();
  at::Tensor head, logits;
  {
    Autocast guard(options_.precision, state_->grad.device());
    head = model.policy(latents, e).to(at::kFloat);
  }
  const auto draw =
      draw_policy(head, normals(UpdateNumbers::policy_action, {steps, B, A}), mask_of(task));
  {
    Autocast guard(options_.precision, state_->grad.device());
    logits = pair_logits(q_, drawn_pair(UpdateNumbers::policy_pair),
                         rows_of(joined(latents, draw.action, e)),
                         keep(UpdateNumbers::policy_dropout, 2, steps, B));
  }
  const auto q = two_hot_value_reference(logits, kTwoHot).mean(0).view({steps, B});
  // values over their running range: entropy_coef then suits tasks of any scale
  update_running_scale(state_->scale, q[0].detach(), options_.options.tau);
  const auto gain = options_.options.entropy_coef * draw.scaled_entropy + q / state_->scale.clone();
  const auto loss = -(gain.mean(1) * rho_).mean();
  loss.backward();

  at::NoGradGuard no_grad;
  figures[kPolicy].copy_(loss);
  figures[kEntropy].copy_(draw.entropy.mean());
  figures[kScale].copy_(state_->scale);
  figures[kQMean].copy_(q.mean());
}

void ReferenceLearner::update(const Sequences& batch, at::Tensor& figures) {
  LearnerState& s = *state_;
  const int64_t begin = s.model->layout().policy_begin();
  s.grad.zero_();
  auto model_grad = s.grad.narrow(0, 0, begin);
  auto policy_grad = s.grad.narrow(0, begin, s.grad.size(0) - begin);

  // model first: the policy learns from value networks that have moved already
  const auto latents = model_losses(batch, targets(batch), figures);
  s.model_adam.reduce(model_grad, {}, *options_.pool);
  s.model_adam.clip(s.skip);
  s.model_adam.step(s.lr, *options_.pool);
  policy_loss(latents, batch.task, figures);
  s.policy_adam.reduce(policy_grad, {}, *options_.pool);
  s.policy_adam.clip(s.skip);
  s.policy_adam.step(s.lr, *options_.pool);
  // target networks follow last: this update was judged by those of the one before
  s.finish_update(options_.options.tau, *options_.pool);
  at::NoGradGuard no_grad;
  figures[kGradNorm].copy_(s.model_adam.norm());
  figures[kPolicyGradNorm].copy_(s.policy_adam.norm());
}

}  // namespace maglev::tdmpc2
