#include "algos/dreamer/fused/scan.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "kernels/gru/gru_op.h"
#include "kernels/norm_silu/norm_silu_op.h"
#include "kernels/products/products_op.h"

namespace maglev::dreamer {

Scan::Scan(const ModelShape& s, const Networks& networks, const Core& core, WeightRows& rows_of,
           const StackRows& steps)
    : shape_(s),
      categoricals_{.S = s.stoch, .C = s.classes, .unimix = s.unimix},
      core_(&core),
      posterior_(dense_of(*networks.rssm, "posterior.hidden.dense0", rows_of)),
      posterior_out_(dense_of(*networks.rssm, "posterior.out", rows_of)),
      posterior_norm_(norm_of(*networks.rssm, "posterior.hidden.norm0")),
      by_deter_(posterior_.forward.narrow(0, 0, s.deter)),
      by_token_(posterior_.forward.narrow(0, s.deter, s.token())),
      by_deter_back_(posterior_.back.narrow(1, 0, s.deter)),
      by_token_back_(posterior_.back.narrow(1, s.deter, s.token())),
      T_(steps.slots),
      R_(steps.rows) {
  const auto f32 = posterior_.weight.options();
  const int64_t T = T_, R = R_, N = T * R, F = s.feature(), D = s.deter, Z = s.flat_stoch(),
                U = s.hidden;
  const int64_t g = s.blocks, w = D / g;
  const auto rows = [&](int64_t n) { return at::empty({N, n}, f32); };
  features_ = at::empty({T + 1, R, F}, f32);
  feature_ = features_.narrow(0, 1, T).view({N, F});
  deter_ = feature_.narrow(1, 0, D);
  masked_ = at::empty({T, R, F}, f32), keep_ = at::empty({T, R, 1}, f32);
  action_ = {.bounded = rows(s.actions),
             .pre = rows(U),
             .active = rows(U),
             .inverse = at::empty({N}, f32)};
  pre_deter_ = rows(U), pre_stoch_ = rows(U), states_ = rows(2 * U);
  inverse_ = at::empty({4, N}, f32);
  mixed_ = rows(D), block_ = at::empty({g, R, w}, f32), active_ = at::empty({g, N, w}, f32);
  gates_ = at::empty({T, g, R, 3 * w}, f32);
  pre_ = rows(U), posterior_active_ = rows(U), logits_ = at::empty({R, Z}, f32), probs_ = rows(Z);
  category_ = at::empty({T, R, s.stoch}, f32.dtype(at::kByte));

  d_features_ = at::zeros({T + 1, R, F}, f32);
  d_feature_ = d_features_.narrow(0, 1, T).view({N, F});
  d_deter_ = d_feature_.narrow(1, 0, D);
  d_masked_ = at::empty({R, F}, f32), d_block_ = at::empty({g, R, w}, f32);
  d_masked_deter_ = d_masked_.narrow(1, 0, D), d_masked_stoch_ = d_masked_.narrow(1, D, Z);
  d_masked_blocks_ = d_masked_deter_.unflatten(1, {g, w}).transpose(0, 1);
  d_logits_ = rows(Z), d_active_ = rows(U), d_pre_ = rows(U);
  d_gates_ = at::empty({g, N, 3 * w}, f32), d_mixed_ = rows(D), mixed_terms_ = rows(D);
  d_states_ = rows(2 * U), d_pre_deter_ = rows(U), d_pre_stoch_ = rows(U);
  d_tokens_ = rows(s.token());
  make_steps();
}

void Scan::make_steps() {
  const int64_t D = shape_.deter, Z = shape_.flat_stoch(), U = shape_.hidden, g = shape_.blocks;
  for (int64_t t = 0; t < T_; ++t) {
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, t * R_, R_); };
    const auto block_rows = [&](const at::Tensor& x) { return x.narrow(1, t * R_, R_); };
    const auto blocks = [&](const at::Tensor& x) {
      return x.unflatten(1, {g, D / g}).transpose(0, 1);
    };
    const at::Tensor masked = masked_[t], h = masked.narrow(1, 0, D), feature = features_[t + 1];
    const at::Tensor d_states = rows(d_states_), d_feature = d_features_[t + 1];
    const at::Tensor d_mixed = rows(d_mixed_), states = rows(states_);
    steps_.push_back({.core = {.h = h,
                               .z = masked.narrow(1, D, Z),
                               .h_blocks = blocks(h),
                               .pre_deter = rows(pre_deter_),
                               .pre_stoch = rows(pre_stoch_),
                               .deter = states.narrow(1, 0, U),
                               .stoch = states.narrow(1, U, U),
                               .states = states,
                               .inverse_deter = rows(inverse_[0]),
                               .inverse_stoch = rows(inverse_[1]),
                               .inverse_mixed = rows(inverse_[2]),
                               .mixed = rows(mixed_),
                               .block = block_,
                               .active = block_rows(active_),
                               .gates = gates_[t],
                               .next = feature.narrow(1, 0, D)},
                      .before = features_[t],
                      .masked = masked,
                      .keep = keep_[t],
                      .pre = rows(pre_),
                      .active = rows(posterior_active_),
                      .inverse = rows(inverse_[3]),
                      .probs = rows(probs_),
                      .one_hot = feature.narrow(1, D, Z),
                      .category = category_[t],
                      .d_before = d_features_[t],
                      .d_feature = d_feature,
                      .d_next = d_feature.narrow(1, 0, D),
                      .d_one_hot = d_feature.narrow(1, D, Z),
                      .d_logits = rows(d_logits_),
                      .d_active = rows(d_active_),
                      .d_pre = rows(d_pre_),
                      .d_probs = {},
                      .d_gates = block_rows(d_gates_),
                      .d_mixed = d_mixed,
                      .d_mixed_blocks = blocks(d_mixed),
                      .mixed_terms = rows(mixed_terms_),
                      .d_states = d_states,
                      .d_deter = d_states.narrow(1, 0, U),
                      .d_stoch = d_states.narrow(1, U, U),
                      .d_pre_deter = rows(d_pre_deter_),
                      .d_pre_stoch = rows(d_pre_stoch_)});
  }
}

void Scan::begin(const ScanInputs& in) {
  const int64_t D = shape_.deter;
  // the state before the first step, as it was stored
  at::Tensor before = features_[0];
  before.narrow(1, 0, D).copy_(in.deter);
  before.narrow(1, D, shape_.flat_stoch())
      .copy_(one_hot(in.stoch, shape_.classes, before.options()).flatten(1));
  at::sub_out(keep_, at::ones({}, keep_.options()), in.is_first.unsqueeze(2));

  // tokens and actions of all steps; nothing leads to the first step of an episode
  tokens_ = in.tokens;
  write_product(pre_, tokens_, by_token_);
  at::mul_out(action_.bounded, in.action.flatten(0, 1).clamp(-1, 1), keep_.view({T_ * R_, 1}));
  core_->add_action(action_, mixed_);
  d_features_.zero_();
}

void Scan::forward(const ScanInputs& in) {
  c10::InferenceMode guard;
  begin(in);
  for (int64_t t = 0; t < T_; ++t) {
    Step& s = steps_[size_t(t)];
    at::mul_out(s.masked, s.before, s.keep);
    core_->advance(s.core);
    // the posterior of h and the token, which is there already
    add_product(s.pre, s.core.next, by_deter_);
    norm_silu_(s.pre, {}, posterior_.bias, posterior_norm_.scale, kNormEps, s.active, s.inverse);
    write_product(logits_, s.active, posterior_out_.forward);
    draw_categories(categoricals_, logits_, posterior_out_.bias, in.uniforms[t],
                    {s.probs, s.one_hot, s.category});
  }
}

void Scan::step_back(Step& s) const {
  const Core& core = *core_;
  const CoreStep& c = s.core;
  at::Tensor d_masked_deter = d_masked_deter_;
  at::Tensor d_block = d_block_;
  // from the draw through the posterior to h
  draw_categories_back(categoricals_, s.probs, s.d_one_hot, s.d_probs, s.d_logits);
  write_product(s.d_active, s.d_logits, posterior_out_.back);
  norm_silu_back({s.pre, s.inverse, posterior_norm_.scale, s.d_active}, s.d_pre, s.d_active);
  add_product(s.d_next, s.d_pre, by_deter_back_);
  // through the gates and the mixing layer
  gru_back({c.gates, core.gates_bias.value, c.h}, s.d_next, s.d_gates, d_masked_deter);
  write_product(d_block, s.d_gates, core.gates_back);
  norm_silu_back({c.mixed, c.inverse_mixed, core.mix_norm.scale, d_block}, s.d_mixed,
                 s.mixed_terms);
  add_product(d_masked_blocks_, s.d_mixed_blocks, core.mix_blocks_back);
  // and through what both states give to all blocks
  write_product(s.d_states, s.d_mixed, core.mix_states_back);
  norm_silu_back({c.pre_deter, c.inverse_deter, core.deter_norm.scale, s.d_deter}, s.d_pre_deter,
                 s.d_deter);
  norm_silu_back({c.pre_stoch, c.inverse_stoch, core.stoch_norm.scale, s.d_stoch}, s.d_pre_stoch,
                 s.d_stoch);
  add_product(d_masked_deter, s.d_pre_deter, core.from_deter.back);
  write_product(d_masked_stoch_, s.d_pre_stoch, core.from_stoch.back);
  at::addcmul_out(s.d_before, s.d_before, d_masked_, s.keep);
}

void Scan::back(const at::Tensor& d_probs, BackScratch& scratch) {
  c10::InferenceMode guard;
  for (int64_t t = T_; t-- > 0;) {
    Step& s = steps_[size_t(t)];
    s.d_probs = d_probs.narrow(0, t * R_, R_);
    step_back(s);
  }
  add_gradients(scratch.ones);
  action_back(scratch);
}

void Scan::add_gradients(const at::Tensor& ones) {
  const Core& core = *core_;
  const int64_t N = T_ * R_, D = shape_.deter, Z = shape_.flat_stoch(), U = shape_.hidden;
  const int64_t g = shape_.blocks, w = D / g;
  const auto add = [](const at::Tensor& to, const at::Tensor& d, const at::Tensor& x) {
    add_product(to, d.t(), x);
  };
  const auto sum = [&](at::Tensor to, const at::Tensor& rows) { add_rows(to, rows, ones); };
  const auto masked = masked_.view({N, D + Z});
  const auto masked_h = masked.narrow(1, 0, D), masked_z = masked.narrow(1, D, Z);

  // the posterior, of h and of tokens
  posterior_out_.add_gradients(d_logits_, posterior_active_, ones);
  add(posterior_.d_weight.narrow(1, 0, D), d_pre_, deter_);
  add(posterior_.d_weight.narrow(1, D, shape_.token()), d_pre_, tokens_);
  sum(posterior_.d_bias, d_pre_), sum(posterior_norm_.d_scale, d_active_);
  write_product(d_tokens_, d_pre_, by_token_back_);

  // gates, a product a block
  add_product(core.gates.gradient, active_.transpose(1, 2), d_gates_);
  core.gates_bias.gradient.view({g, 3 * w}).add_(d_gates_.sum(1));

  // the mixing layer: a block's own part of h, and the three inputs
  for (int64_t b = 0; b < g; ++b) {
    const auto d_mixed = d_mixed_.narrow(1, b * w, w), weight = core.mix.gradient[b];
    add(weight.narrow(0, 0, w), masked_h.narrow(1, b * w, w), d_mixed);
    add(weight.narrow(0, w, 2 * U), states_, d_mixed);
    add(weight.narrow(0, w + 2 * U, U), action_.active, d_mixed);
  }
  sum(core.mix_bias.gradient, d_mixed_), sum(core.mix_norm.d_scale, mixed_terms_);

  // the layers before it
  add(core.from_deter.d_weight, d_pre_deter_, masked_h), sum(core.from_deter.d_bias, d_pre_deter_);
  add(core.from_stoch.d_weight, d_pre_stoch_, masked_z), sum(core.from_stoch.d_bias, d_pre_stoch_);
  sum(core.deter_norm.d_scale, d_states_.narrow(1, 0, U));
  sum(core.stoch_norm.d_scale, d_states_.narrow(1, U, U));
}

void Scan::action_back(BackScratch& scratch) {
  DenseWeights dense = core_->from_action;
  NormWeights norm = core_->action_norm;
  const int64_t N = T_ * R_, U = shape_.hidden;
  at::Tensor d = scratch.d.narrow(0, 0, N * U).view({N, U});
  at::Tensor d_pre = scratch.d_pre.narrow(0, 0, N * U).view({N, U});
  write_product(d, d_mixed_, core_->mix_action_back);
  norm_silu_back({action_.pre, action_.inverse, norm.scale, d}, d_pre, d);
  dense.add_gradients(d_pre, action_.bounded, scratch.ones);
  add_rows(norm.d_scale, d, scratch.ones);
}

}  // namespace maglev::dreamer
