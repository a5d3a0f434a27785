#include "algos/tdmpc2/parts_learner.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/noise/noise_op.h"

namespace maglev::tdmpc2 {
namespace {

int64_t sequences_at_once(const Options& o) {
  return o.micro_batch > 0 ? std::min(o.micro_batch, o.batch) : o.batch;
}

}  // namespace

at::Tensor cut(const at::Tensor& x, int64_t dim, int64_t first, int64_t count) {
  return !x.defined() || count == x.size(dim) ? x : x.narrow(dim, first, count);
}

PartsLearner::PartsLearner(const LearnerOptions& options, LearnerState& state)
    : options_(options),
      state_(&state),
      micro_batch_(sequences_at_once(options.options), state.grad.device(), "sequences") {
  // rho^t weights the losses, and a draw picks one pair of value networks
  const auto f32 = state.params.data().options();
  rho_ = at::pow(options.options.rho, at::arange(options.options.horizon + 1, f32));
  const int64_t n = options.shape.num_q;
  pairs_ = at::zeros({pair_count(n), 2}, at::kLong);
  for (int64_t i = 0, p = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j, ++p) pairs_[p][0] = i, pairs_[p][1] = j;
  pairs_ = pairs_.to(f32.device());
}

std::vector<Part> PartsLearner::parts_of(const Sequences& batch, int64_t at_once) const {
  const int64_t B = batch.action.size(1);
  std::vector<Part> parts;
  for (int64_t first = 0; first < B; first += at_once) {
    const int64_t count = std::min(at_once, B - first);
    parts.push_back({.rows = {.obs = cut(batch.obs, 1, first, count),
                              .action = cut(batch.action, 1, first, count),
                              .reward = cut(batch.reward, 1, first, count).contiguous(),
                              .terminated = cut(batch.terminated, 1, first, count),
                              .task = cut(batch.task, 0, first, count)},
                     .first = first,
                     .before = B * rank_of(options_.group) + first,
                     .batch = B * size_of(options_.group)});
  }
  return parts;
}

NoiseFill PartsLearner::numbers(UpdateNumbers kind) const {
  return update_fill(options_.seed, kind, state_->updates.const_data_ptr<int64_t>());
}

at::Tensor PartsLearner::drawn(Draw draw, UpdateNumbers kind, int64_t outer, int64_t width,
                               const Part& part) const {
  auto out = at::empty({outer, part.count(), width}, state_->grad.options());
  NoiseFill fill = numbers(kind);
  if (part.whole()) {
    draw(out, fill);
    return out;
  }
  // a part's numbers are those the whole batch draws for its rows
  for (int64_t i = 0; i < outer; ++i) {
    fill.first = uint64_t((i * part.batch + part.before) * width);
    at::Tensor place = out[i];
    draw(place, fill);
  }
  return out;
}

at::Tensor PartsLearner::normals(UpdateNumbers kind, int64_t outer, int64_t width,
                                 const Part& part) const {
  return drawn(noise_normal_, kind, outer, width, part);
}

at::Tensor PartsLearner::uniforms(UpdateNumbers kind, int64_t outer, int64_t width,
                                  const Part& part) const {
  return drawn(noise_uniform_, kind, outer, width, part);
}

at::Tensor PartsLearner::drawn_pair(UpdateNumbers kind) const {
  const int64_t pairs = pairs_.size(0);
  auto u = at::empty({1}, state_->grad.options());
  noise_uniform_(u, numbers(kind));
  // a uniform close to 1 may round up to the number of pairs
  const auto place = (u * double(pairs)).to(at::kLong).clamp_max(pairs - 1);
  return at::index_select(pairs_, 0, place).flatten();
}

at::Tensor PartsLearner::of_all(const std::vector<at::Tensor>& values) {
  const at::Tensor own = values.size() == 1 ? values.front() : at::cat(values);
  if (!options_.group) return own;
  if (!given_.defined()) given_ = gathered(options_.group, own);
  return given_;
}

void PartsLearner::update(const Sequences& batch, at::Tensor& figures) {
  LearnerState& s = *state_;
  // of one that did not come to its end
  given_.reset();
  const int64_t begin = s.model->layout().policy_begin();
  auto model_grad = s.grad.narrow(0, 0, begin);
  auto policy_grad = s.grad.narrow(0, begin, s.grad.size(0) - begin);

  // model first: the policy learns from value networks that have moved already
  at::Tensor latents;
  micro_batch_.run([&](int64_t rows) { latents = model_gradients(batch, rows, figures); });
  reduce_all(s.model_adam, model_grad, {}, *options_.pool, options_.group);
  s.model_adam.clip(s.skip);
  s.model_adam.step(s.lr, *options_.pool);
  micro_batch_.run([&](int64_t rows) { policy_gradients(latents, batch, rows, figures); });
  reduce_all(s.policy_adam, policy_grad, {}, *options_.pool, options_.group);
  s.policy_adam.clip(s.skip);
  s.policy_adam.step(s.lr, *options_.pool);
  // target networks follow last: this update was judged by those of the one before
  s.finish_update(options_.options.tau, *options_.pool);
  // figures are shares of the whole batch's until here; the scale is known to all
  at::NoGradGuard no_grad;
  if (options_.group) {
    options_.group->sum(figures);
    figures[kScale].copy_(s.scale);
  }
  figures[kGradNorm].copy_(s.model_adam.norm());
  figures[kPolicyGradNorm].copy_(s.policy_adam.norm());
}

}  // namespace maglev::tdmpc2
