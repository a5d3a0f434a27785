#include "algos/dreamer/fused/dream.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "kernels/action_head/action_head_op.h"
#include "kernels/symexp_bins/symexp_bins_op.h"

namespace maglev::dreamer {
namespace {

// of heads that learn at step 0 alone: that one, and one for all others
int64_t first_or_other(int64_t look) { return std::min<int64_t>(look, 1); }

int64_t look_count(int64_t steps, at::Device device) { return device.is_cuda() ? 1 : steps; }

StackRows all_looks(const Options& o, int64_t n, at::Device device) {
  const int64_t steps = o.imagination + 1, looks = look_count(steps, device);
  return {.rows = steps * n / looks, .slots = looks};
}
StackRows some_looks(const Options& o, int64_t n, at::Device device, int64_t slots) {
  const StackRows all = all_looks(o, n, device);
  return {.rows = all.rows, .slots = std::min(all.slots, slots)};
}

}  // namespace

Dream::Dream(const Options& o, const ModelShape& s, const Networks& networks,
             const Head& slow_value, const Core& core, WeightRows& weights, const at::Tensor& bins,
             int64_t n)
    : policy(*networks.policy, {n, o.imagination + 1}, weights),
      value(*networks.value, all_looks(o, n, bins.device()), weights),
      reward(*networks.reward, some_looks(o, n, bins.device(), 2), weights),
      going_on(*networks.going_on, some_looks(o, n, bins.device(), 2), weights),
      H_(o.imagination),
      n_(n),
      looks_(look_count(H_ + 1, bins.device())),
      choices_(s.heads.empty() ? at::Tensor() : at::tensor(s.heads, at::kLong).to(bins.device())),
      categoricals_{.S = s.stoch, .C = s.classes, .unimix = s.unimix},
      core_(&core),
      slow_(slow_value, some_looks(o, n, bins.device(), 1), weights),
      prior_(*networks.rssm->named_children()["prior"], {n, 1}, weights),
      bins_(bins) {
  const auto f32 = bins.options();
  const int64_t D = s.deter, F = s.feature(), g = s.blocks, w = D / g;
  const auto steps = [&](int64_t count) { return at::zeros({count, n}, f32); };
  const auto rows = [&](int64_t width) { return at::empty({n, width}, f32); };
  feature_ = at::empty({(H_ + 1) * n, F}, f32);
  weights.share(feature_);
  action_ = at::empty({H_ + 1, n, s.actions}, f32);
  reward_mean_ = steps(H_ + 1), going_on_logit_ = steps(H_ + 1), terminated_ = steps(H_ + 1);
  value_mean_ = steps(H_ + 1), slow_mean_ = steps(H_ + 1);
  probs_ = rows(s.flat_stoch());
  // one step's products, in which all steps take turns
  const CoreInputs inputs(n, 3, s.hidden, f32);
  const auto blocks = [&](const at::Tensor& x) { return x.unflatten(1, {g, w}).transpose(0, 1); };
  const at::Tensor mixed = rows(D);
  const CoreStep shared{.h = {},
                        .z = {},
                        .h_blocks = {},
                        .bounded = rows(s.actions),
                        .inputs = inputs,
                        .pre_deter = inputs.column(inputs.pre, 0),
                        .pre_stoch = inputs.column(inputs.pre, 1),
                        .pre_action = inputs.column(inputs.pre, 2),
                        .mixed = mixed,
                        .mixed_blocks = blocks(mixed),
                        .inverse_mixed = at::empty({n}, f32),
                        .active = at::empty({g, n, w}, f32),
                        .gates = at::empty({g, n, 3 * w}, f32),
                        .next = {},
                        .carried = {}};
  for (int64_t t = 0; t <= H_; ++t) {
    const auto feature = [&](int64_t step) { return feature_.narrow(0, step * n, n); };
    Step step{.core = shared, .feature = feature(t), .action = action_[t]};
    step.core.h = step.feature.narrow(1, 0, D), step.core.z = step.feature.narrow(1, D, F - D);
    step.core.h_blocks = blocks(step.core.h);
    if (t < H_) {
      step.core.next = feature(t + 1).narrow(1, 0, D);
      step.one_hot = feature(t + 1).narrow(1, D, F - D);
    }
    steps_.push_back(step);
  }
  const int64_t m = (H_ + 1) * n / looks_;
  for (int64_t l = 0; l < looks_; ++l) {
    const auto rows = [&](const at::Tensor& t) { return t.view({-1}).narrow(0, l * m, m); };
    look_.push_back({.feature = feature_.narrow(0, l * m, m),
                     .reward = rows(reward_mean_),
                     .going_on = rows(going_on_logit_).unsqueeze(1),
                     .value = rows(value_mean_),
                     .slow = rows(slow_mean_)});
  }
}

void Dream::look(int64_t l) {
  Look& s = look_[size_t(l)];
  const int64_t slot = first_or_other(l);
  reward.forward(slot, s.feature);
  symexp_mean(bins_, reward.out(slot), reward.bias(), s.reward);
  going_on.forward(slot, s.feature);
  at::add_out(s.going_on, going_on.out(slot), going_on.bias());
  value.forward(l, s.feature);
  symexp_mean(bins_, value.out(l), value.bias(), s.value);
  // a step by itself: nothing is learned of the last one
  if (looks_ > 1 && l == H_) return;
  slow_.forward(0, s.feature);
  symexp_mean(bins_, slow_.out(0), slow_.bias(), s.slow);
}

void Dream::advance(int64_t t, const DreamNoise& noise) {
  Step& s = steps_[size_t(t)];
  policy.forward(t, s.feature);
  draw_actions({policy.out(t), policy.bias(), choices_}, noise.action[t], s.action, s.core.bounded);
  if (t == H_) return;
  core_->advance(s.core, core_->products);
  round_shared(s.core.next, core_->products);
  prior_.forward(0, s.core.next);
  draw_categories(categoricals_, prior_.out(0), prior_.bias(), noise.prior[t],
                  {probs_, s.one_hot, {}});
  round_shared(s.one_hot, core_->products);
}

void Dream::imagine(const at::Tensor& start, const DreamNoise& noise) {
  c10::InferenceMode guard;
  steps_[0].feature.copy_(start);
  round_shared(steps_[0].feature, core_->products);
  for (int64_t t = 0; t <= H_; ++t) {
    if (looks_ > 1) look(t);
    advance(t, noise);
  }
  if (looks_ == 1) look(0);
  // the discount is in the chance that the episode goes on
  at::sigmoid_out(terminated_, going_on_logit_.neg());
}

}  // namespace maglev::dreamer
