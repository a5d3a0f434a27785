#include "algos/tdmpc2/reference/learner.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/nn/autocast.h"
#include "kernels/noise/noise_op.h"
#include "kernels/two_hot/two_hot_op.h"

namespace maglev::tdmpc2 {
namespace {

at::Tensor rows_of(const at::Tensor& x) { return x.defined() ? x.flatten(0, 1) : x; }

at::Tensor sequences_of(const at::Tensor& x, int64_t dim, const Part& rows) {
  return !x.defined() || rows.whole() ? x : x.narrow(dim, rows.first, rows.count);
}

Sequences part_of(const Sequences& batch, const Part& rows) {
  return {.obs = sequences_of(batch.obs, 1, rows),
          .action = sequences_of(batch.action, 1, rows),
          .reward = sequences_of(batch.reward, 1, rows).contiguous(),
          .terminated = sequences_of(batch.terminated, 1, rows),
          .task = sequences_of(batch.task, 0, rows)};
}

std::vector<Part> parts_of(int64_t batch, int64_t at_once) {
  std::vector<Part> parts;
  for (int64_t first = 0; first < batch; first += at_once)
    parts.push_back({first, std::min(at_once, batch - first), batch});
  return parts;
}

int64_t sequences_at_once(const Options& o) {
  return o.micro_batch > 0 ? std::min(o.micro_batch, o.batch) : o.batch;
}

}  // namespace

ReferenceLearner::ReferenceLearner(const LearnerOptions& options, LearnerState& state)
    : options_(options),
      state_(&state),
      micro_batch_(sequences_at_once(options.options), state.grad.device(), "sequences") {
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

template <class Draw>
at::Tensor ReferenceLearner::drawn(UpdateNumbers kind, int64_t outer, int64_t width,
                                   const Part& rows, const Draw& draw) const {
  auto out = at::empty({outer, rows.count, width}, state_->grad.options());
  NoiseFill fill = update_fill(options_.seed, kind, state_->updates.const_data_ptr<int64_t>());
  if (rows.whole()) {
    draw(out, fill);
    return out;
  }
  // a part's numbers are those the whole batch draws for its rows
  for (int64_t i = 0; i < outer; ++i) {
    fill.first = uint64_t((i * rows.batch + rows.first) * width);
    at::Tensor place = out[i];
    draw(place, fill);
  }
  return out;
}

at::Tensor ReferenceLearner::normals(UpdateNumbers kind, int64_t steps, const Part& rows) const {
  return drawn(kind, steps, options_.shape.actions, rows, noise_normal_);
}

at::Tensor ReferenceLearner::keep(UpdateNumbers kind, int64_t nets, int64_t steps,
                                  const Part& rows) const {
  const double share = options_.options.dropout;
  if (share == 0) return {};
  // what is kept is scaled up, so that its mean stays what it was
  const auto u = drawn(kind, nets * steps, options_.shape.mlp_dim, rows, noise_uniform_);
  return (u >= share).to(at::kFloat).view({nets, steps * rows.count, -1}) * (1 / (1 - share));
}

at::Tensor ReferenceLearner::drawn_pair(UpdateNumbers kind) const {
  const int64_t pairs = pairs_.size(0);
  const auto u = drawn(kind, 1, 1, {.first = 0, .count = 1, .batch = 1}, noise_uniform_);
  // a uniform close to 1 may round up to the number of pairs
  const auto place = (u.flatten() * double(pairs)).to(at::kLong).clamp_max(pairs - 1);
  return at::index_select(pairs_, 0, place).flatten();
}

at::Tensor ReferenceLearner::encode(const Sequences& part, const Part& rows, int64_t first,
                                    int64_t count) const {
  const WorldModel& model = *state_->model;
  const auto obs = part.obs.narrow(0, first, count);
  if (!options_.shape.image()) return model.encode(obs, embedded(part.task, count));
  // shifts of all times are drawn, so that a time's does not depend on which times are encoded
  const auto shift = drawn(UpdateNumbers::image_shift, part.obs.size(0), 2, rows, noise_uniform_)
                         .narrow(0, first, count);
  return model.encode_image(obs.flatten(0, 1), shift.flatten(0, 1)).view({count, rows.count, -1});
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

ReferenceLearner::Targets ReferenceLearner::targets(const Sequences& part, const Part& rows) const {
  at::NoGradGuard no_grad;
  const int64_t H = part.action.size(0), B = rows.count;
  const WorldModel& model = *state_->model;
  Autocast guard(options_.precision, state_->grad.device());
  // latents of what was seen next, and an action of the policy prior there
  const auto e = embedded(part.task, H);
  const auto z = encode(part, rows, 1, H).to(at::kFloat);
  const auto head = model.policy(z, e).to(at::kFloat);
  const auto draw =
      draw_policy(head, normals(UpdateNumbers::target_action, H, rows), mask_of(part.task));
  // q = r + gamma (1 - terminated) times the lesser of two target networks; no planning in it
  const auto logits = pair_logits(target_q_, drawn_pair(UpdateNumbers::target_pair),
                                  rows_of(joined(z, draw.action, e)), {});
  const auto value = two_hot_value_reference(logits, kTwoHot).amin(0).view({H, B});
  return {part.reward + discount_of_rows(part.task) * (1 - part.terminated) * value, z};
}

at::Tensor ReferenceLearner::model_losses(const Sequences& part, const Part& rows,
                                          at::Tensor& figures) {
  const Targets targets = this->targets(part, rows);
  at::AutoGradMode with_grad(true);
  const Options& o = options_.options;
  const WorldModel& model = *state_->model;
  const int64_t H = part.action.size(0), B = rows.count, n = options_.shape.num_q;
  const auto rho = rho_.narrow(0, 0, H);
  const auto e = embedded(part.task, H), one = embedded(part.task, 1);

  // roll the latents out from the first observation alone, by the actions that were taken
  std::vector<at::Tensor> latents;
  at::Tensor reward_logits, q_logits, termination_logits;
  {
    Autocast guard(options_.precision, state_->grad.device());
    latents.push_back(encode(part, rows, 0, 1).to(at::kFloat));
    for (int64_t t = 0; t < H; ++t)
      latents.push_back(
          model.next(latents.back(), part.action.narrow(0, t, 1), one).to(at::kFloat));
  }
  const auto z = at::cat(latents, 0), from = z.narrow(0, 0, H), to = z.narrow(0, 1, H);
  // reward and value where an action is taken, termination where it led
  {
    Autocast guard(options_.precision, state_->grad.device());
    reward_logits = model.reward(from, part.action, e).to(at::kFloat);
    q_logits = stacked_forward(model.stacked_q(), rows_of(joined(from, part.action, e)),
                               keep(UpdateNumbers::value_dropout, n, H, rows))
                   .to(at::kFloat)
                   .view({n, H, B, kBins});
    if (options_.shape.episodic) termination_logits = model.termination(to, e).to(at::kFloat);
  }

  // joint-embedding prediction, reward and value: mean over the batch, weighted by rho^t
  const auto consistency =
      ((to - targets.latent).square().mean(at::IntArrayRef{1, 2}) * rho).sum() / H;
  const auto reward = (two_hot_loss(reward_logits, part.reward, kTwoHot).mean(1) * rho).sum() / H;
  const auto wanted = targets.value.unsqueeze(0).expand({n, H, B});
  const auto value = (two_hot_loss(q_logits, wanted, kTwoHot).mean(2) * rho).sum() / (H * n);
  // terminations are as sure at any step and have no such weights
  auto termination = at::zeros_like(value);
  if (options_.shape.episodic)
    termination = at::binary_cross_entropy_with_logits(termination_logits, part.terminated);
  const auto total = o.consistency_coef * consistency + o.reward_coef * reward +
                     o.value_coef * value + o.termination_coef * termination;
  // the batch's mean is the sum of its parts' by their shares
  (total * rows.share()).backward();

  at::NoGradGuard no_grad;
  figures.narrow(0, kConsistency, kTotal + 1)
      .add_(at::stack({consistency, reward, value, termination, total}), rows.share());
  figures[kTarget].add_(targets.value.mean(), rows.share());
  return z.detach();
}

at::Tensor ReferenceLearner::model_gradients(const Sequences& batch, int64_t at_once,
                                             at::Tensor& figures) {
  const ModelLayout& layout = state_->model->layout();
  state_->grad.narrow(0, 0, layout.policy_begin()).zero_();
  figures.zero_();
  std::vector<at::Tensor> latents;
  for (const Part& rows : parts_of(batch.action.size(1), at_once))
    latents.push_back(model_losses(part_of(batch, rows), rows, figures));
  return latents.size() == 1 ? latents.front() : at::cat(latents, 1);
}

ReferenceLearner::PolicyValues ReferenceLearner::policy_values(const at::Tensor& latents,
                                                               const at::Tensor& task,
                                                               const Part& rows) const {
  const WorldModel& model = *state_->model;
  const int64_t steps = latents.size(0);
  // the policy's loss moves the policy alone
  auto e = embedded(task, steps);
  if (e.defined()) e = e.detach();
  at::Tensor head, logits;
  {
    Autocast guard(options_.precision, state_->grad.device());
    head = model.policy(latents, e).to(at::kFloat);
  }
  const auto draw =
      draw_policy(head, normals(UpdateNumbers::policy_action, steps, rows), mask_of(task));
  {
    Autocast guard(options_.precision, state_->grad.device());
    logits = pair_logits(q_, drawn_pair(UpdateNumbers::policy_pair),
                         rows_of(joined(latents, draw.action, e)),
                         keep(UpdateNumbers::policy_dropout, 2, steps, rows));
  }
  return {draw, two_hot_value_reference(logits, kTwoHot).mean(0).view({steps, rows.count})};
}

void ReferenceLearner::policy_loss(const PolicyValues& values, const at::Tensor& scale,
                                   const Part& rows, at::Tensor& figures) {
  // values over their running range: entropy_coef then suits tasks of any scale
  const auto& [draw, q] = values;
  const auto gain = options_.options.entropy_coef * draw.scaled_entropy + q / scale;
  const auto loss = -(gain.mean(1) * rho_).mean();
  (loss * rows.share()).backward();

  at::NoGradGuard no_grad;
  figures[kPolicy].add_(loss, rows.share());
  figures[kEntropy].add_(draw.entropy.mean(), rows.share());
  figures[kQMean].add_(q.mean(), rows.share());
}

void ReferenceLearner::policy_gradients(const at::Tensor& latents, const at::Tensor& task,
                                        int64_t at_once, at::Tensor& figures) {
  const auto parts = parts_of(latents.size(1), at_once);
  const auto values_of = [&](const Part& rows, bool with_gradient) {
    at::AutoGradMode grad(with_gradient);
    return policy_values(sequences_of(latents, 1, rows), sequences_of(task, 0, rows), rows);
  };
  const int64_t begin = state_->model->layout().policy_begin();
  state_->grad.narrow(0, begin, state_->grad.size(0) - begin).zero_();
  for (Figure figure : {kPolicy, kEntropy, kQMean}) figures[figure].zero_();

  // the scale follows the values at step 0 of the whole batch: with several parts, their values are
  // found for it alone and again below
  const bool whole = parts.size() == 1;
  PolicyValues values;
  std::vector<at::Tensor> begins;
  for (const Part& rows : parts) {
    values = values_of(rows, /*with_gradient=*/whole);
    begins.push_back(values.q[0].detach());
  }
  auto scale = state_->scale.clone();
  update_running_scale(scale, whole ? begins.front() : at::cat(begins), options_.options.tau);

  at::AutoGradMode with_grad(true);
  for (const Part& rows : parts)
    policy_loss(whole ? values : values_of(rows, true), scale, rows, figures);
  // last, so that whoever runs out of memory may begin anew
  at::NoGradGuard no_grad;
  state_->scale.copy_(scale);
  figures[kScale].copy_(scale);
}

void ReferenceLearner::update(const Sequences& batch, at::Tensor& figures) {
  LearnerState& s = *state_;
  const int64_t begin = s.model->layout().policy_begin();
  auto model_grad = s.grad.narrow(0, 0, begin);
  auto policy_grad = s.grad.narrow(0, begin, s.grad.size(0) - begin);

  // model first: the policy learns from value networks that have moved already
  at::Tensor latents;
  micro_batch_.run([&](int64_t rows) { latents = model_gradients(batch, rows, figures); });
  s.model_adam.reduce(model_grad, {}, *options_.pool);
  s.model_adam.clip(s.skip);
  s.model_adam.step(s.lr, *options_.pool);
  micro_batch_.run([&](int64_t rows) { policy_gradients(latents, batch.task, rows, figures); });
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
