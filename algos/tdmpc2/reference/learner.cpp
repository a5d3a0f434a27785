#include "algos/tdmpc2/reference/learner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/nn/autocast.h"
#include "kernels/two_hot/two_hot_op.h"

namespace maglev::tdmpc2 {
namespace {

at::Tensor rows_of(const at::Tensor& x) { return x.defined() ? x.flatten(0, 1) : x; }

}  // namespace

ReferenceLearner::ReferenceLearner(const LearnerOptions& options, LearnerState& state)
    : PartsLearner(options, state) {
  const ModelLayout& layout = state.model->layout();
  const int64_t n = options.shape.num_q, begin = layout.q_begin(),
                count = layout.q_end() - layout.q_begin();
  // autograd adds into the flat gradient; views serve where weights get no gradient
  const auto online = state.params.data().narrow(0, begin, count);
  state.params.bind(*state.model, *state.model, state.grad);
  q_ = stacked(online, layout.q[0], n);
  target_q_ = stacked(state.target_q, layout.q[0], n);
  // gamma is of each task
  discount_ = at::tensor(options.discount).to(state.params.data().device());
}

at::Tensor ReferenceLearner::keep(UpdateNumbers kind, int64_t nets, int64_t steps,
                                  const Part& part) const {
  const double share = options_.options.dropout;
  if (share == 0) return {};
  // what is kept is scaled up, so that its mean stays what it was
  const auto u = uniforms(kind, nets * steps, options_.shape.hidden.q.front(), part);
  return (u >= share).to(at::kFloat).view({nets, steps * part.count(), -1}) * (1 / (1 - share));
}

at::Tensor ReferenceLearner::encode(const Part& part, int64_t first, int64_t count) const {
  const WorldModel& model = *state_->model;
  const auto obs = part.rows.obs.narrow(0, first, count);
  if (!options_.shape.image()) return model.encode(obs, embedded(part.rows.task, count));
  // shifts of all times are drawn, so that a time's does not depend on which times are encoded
  const auto shift =
      uniforms(UpdateNumbers::image_shift, part.rows.obs.size(0), 2, part).narrow(0, first, count);
  return model.encode_image(obs.flatten(0, 1), shift.flatten(0, 1)).view({count, part.count(), -1});
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

ReferenceLearner::Targets ReferenceLearner::targets(const Part& part) const {
  at::NoGradGuard no_grad;
  const auto& [obs, action, rewards, terminated, task] = part.rows;
  const int64_t H = action.size(0), B = part.count();
  const WorldModel& model = *state_->model;
  Autocast guard(options_.precision, state_->grad.device());
  // latents of what was seen next, and an action of the policy prior there
  const auto e = embedded(task, H);
  const auto z = encode(part, 1, H).to(at::kFloat);
  const auto head = model.policy(z, e).to(at::kFloat);
  const auto noise = normals(UpdateNumbers::target_action, H, options_.shape.actions, part);
  const auto draw = draw_policy(head, noise, mask_of(task));
  // q = r + gamma (1 - terminated) times the lesser of two target networks; no planning in it
  const auto logits = pair_logits(target_q_, drawn_pair(UpdateNumbers::target_pair),
                                  rows_of(joined(z, draw.action, e)), {});
  const auto value = two_hot_value_reference(logits, kTwoHot).amin(0).view({H, B});
  return {rewards + discount_of_rows(task) * (1 - terminated) * value, z};
}

ReferenceLearner::ModelLoss ReferenceLearner::model_loss(const Part& part) const {
  const Targets targets = this->targets(part);
  const Options& o = options_.options;
  const WorldModel& model = *state_->model;
  const auto& [obs, action, rewards, terminated, task] = part.rows;
  const int64_t H = action.size(0), B = part.count(), n = options_.shape.num_q;
  const auto rho = rho_.narrow(0, 0, H);
  const auto e = embedded(task, H), one = embedded(task, 1);

  // roll the latents out from the first observation alone, by the actions that were taken
  std::vector<at::Tensor> latents;
  at::Tensor reward_logits, q_logits, termination_logits;
  {
    Autocast guard(options_.precision, state_->grad.device());
    latents.push_back(encode(part, 0, 1).to(at::kFloat));
    for (int64_t t = 0; t < H; ++t)
      latents.push_back(model.next(latents.back(), action.narrow(0, t, 1), one).to(at::kFloat));
  }
  const auto z = at::cat(latents, 0), from = z.narrow(0, 0, H), to = z.narrow(0, 1, H);
  // reward and value where an action is taken, termination where it led
  {
    Autocast guard(options_.precision, state_->grad.device());
    reward_logits = model.reward(from, action, e).to(at::kFloat);
    q_logits = stacked_forward(model.stacked_q(), rows_of(joined(from, action, e)),
                               keep(UpdateNumbers::value_dropout, n, H, part))
                   .to(at::kFloat)
                   .view({n, H, B, kBins});
    if (options_.shape.episodic) termination_logits = model.termination(to, e).to(at::kFloat);
  }

  // joint-embedding prediction, reward and value: mean over the batch, weighted by rho^t
  const auto consistency =
      ((to - targets.latent).square().mean(at::IntArrayRef{1, 2}) * rho).sum() / H;
  const auto reward = (two_hot_loss(reward_logits, rewards, kTwoHot).mean(1) * rho).sum() / H;
  const auto wanted = targets.value.unsqueeze(0).expand({n, H, B});
  const auto value = (two_hot_loss(q_logits, wanted, kTwoHot).mean(2) * rho).sum() / (H * n);
  // terminations are as sure at any step and have no such weights
  auto termination = at::zeros_like(value);
  if (options_.shape.episodic)
    termination = at::binary_cross_entropy_with_logits(termination_logits, terminated);
  const auto total = o.consistency_coef * consistency + o.reward_coef * reward +
                     o.value_coef * value + o.termination_coef * termination;
  return {consistency, reward, value, termination, total, targets.value.mean(), z.detach()};
}

at::Tensor ReferenceLearner::model_gradients(const Sequences& batch, int64_t at_once,
                                             at::Tensor& figures) {
  const ModelLayout& layout = state_->model->layout();
  state_->grad.narrow(0, 0, layout.policy_begin()).zero_();
  figures.zero_();
  std::vector<at::Tensor> latents;
  for (const Part& part : parts_of(batch, at_once)) {
    at::AutoGradMode with_grad(true);
    const ModelLoss loss = model_loss(part);
    // the batch's mean is the sum of its parts' by their shares
    (loss.total * part.share()).backward();

    at::NoGradGuard no_grad;
    figures.narrow(0, kConsistency, kTotal + 1)
        .add_(at::stack({loss.consistency, loss.reward, loss.value, loss.termination, loss.total}),
              part.share());
    figures[kTarget].add_(loss.target, part.share());
    latents.push_back(loss.latents);
  }
  return latents.size() == 1 ? latents.front() : at::cat(latents, 1);
}

ReferenceLearner::PolicyValues ReferenceLearner::policy_values(const Part& part,
                                                               const at::Tensor& latents) const {
  const WorldModel& model = *state_->model;
  const int64_t steps = latents.size(0);
  const at::Tensor& task = part.rows.task;
  // the policy's loss moves the policy alone
  auto e = embedded(task, steps);
  if (e.defined()) e = e.detach();
  at::Tensor head, logits;
  {
    Autocast guard(options_.precision, state_->grad.device());
    head = model.policy(latents, e).to(at::kFloat);
  }
  const auto noise = normals(UpdateNumbers::policy_action, steps, options_.shape.actions, part);
  const auto draw = draw_policy(head, noise, mask_of(task), options_.options.entropy_of);
  {
    Autocast guard(options_.precision, state_->grad.device());
    logits = pair_logits(q_, drawn_pair(UpdateNumbers::policy_pair),
                         rows_of(joined(latents, draw.action, e)),
                         keep(UpdateNumbers::policy_dropout, 2, steps, part));
  }
  return {draw, two_hot_value_reference(logits, kTwoHot).mean(0).view({steps, part.count()})};
}

at::Tensor ReferenceLearner::policy_loss(const PolicyValues& values,
                                         const at::Tensor& scale) const {
  // values over their running range: entropy_coef then suits tasks of any scale
  const auto gain = options_.options.entropy_coef * values.draw.scaled_entropy + values.q / scale;
  return -(gain.mean(1) * rho_).mean();
}

void ReferenceLearner::policy_gradients(const at::Tensor& latents, const Sequences& batch,
                                        int64_t at_once, at::Tensor& figures) {
  const auto parts = parts_of(batch, at_once);
  const auto values_of = [&](const Part& part, bool with_gradient) {
    at::AutoGradMode grad(with_gradient);
    return policy_values(part, cut(latents, 1, part.first, part.count()));
  };
  const int64_t begin = state_->model->layout().policy_begin();
  state_->grad.narrow(0, begin, state_->grad.size(0) - begin).zero_();
  for (Figure figure : {kPolicy, kEntropy, kQMean}) figures[figure].zero_();

  // the scale follows the values at step 0 of the whole batch: with several parts, their values are
  // found for it alone and again below
  const bool whole = parts.size() == 1;
  PolicyValues values;
  std::vector<at::Tensor> begins;
  for (const Part& part : parts) {
    values = values_of(part, /*with_gradient=*/whole);
    begins.push_back(values.q[0].detach());
  }
  auto scale = state_->scale.clone();
  update_running_scale(scale, of_all(begins), options_.options.tau);

  for (const Part& part : parts) {
    at::AutoGradMode with_grad(true);
    const PolicyValues now = whole ? values : values_of(part, /*with_gradient=*/true);
    const auto loss = policy_loss(now, scale);
    (loss * part.share()).backward();

    at::NoGradGuard no_grad;
    figures[kPolicy].add_(loss, part.share());
    figures[kEntropy].add_(now.draw.entropy.mean(), part.share());
    figures[kQMean].add_(now.q.mean(), part.share());
  }
  // last, so that whoever runs out of memory may begin anew
  at::NoGradGuard no_grad;
  state_->scale.copy_(scale);
  figures[kScale].copy_(scale);
}

}  // namespace maglev::tdmpc2
