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
  feature_ = at::empty({N, F}, f32);
  rows_of.share(feature_);
  deter_ = feature_.narrow(1, 0, D);
  masked_ = at::empty({T, R, F}, f32), keep_ = at::empty({T, R}, f32);
  action_ = {.bounded = rows(s.actions),
             .pre = rows(U),
             .active = rows(U),
             .inverse = at::empty({N}, f32)};
  inputs_ = CoreInputs(N, 2, U, f32);
  inverse_ = at::empty({2, N}, f32);
  mixed_ = rows(D), active_ = at::empty({g, N, w}, f32);
  gates_ = at::empty({T, g, R, 3 * w}, f32);
  pre_ = rows(U), posterior_active_ = rows(U), logits_ = at::empty({R, Z}, f32), probs_ = rows(Z);
  category_ = at::empty({T, R, s.stoch}, f32.dtype(at::kByte));

  d_feature_ = at::zeros({N, F}, f32);
  d_deter_ = d_feature_.narrow(1, 0, D);
  d_masked_ = at::empty({R, F}, f32), d_block_ = at::empty({g, R, w}, f32);
  d_masked_deter_ = d_masked_.narrow(1, 0, D), d_masked_stoch_ = d_masked_.narrow(1, D, Z);
  d_masked_blocks_ = d_masked_deter_.unflatten(1, {g, w}).transpose(0, 1);
  d_logits_ = rows(Z), d_active_ = rows(U), d_pre_ = rows(U);
  d_gates_ = at::empty({g, N, 3 * w}, f32), d_mixed_ = rows(D), mixed_terms_ = rows(D);
  d_inputs_ = CoreInputs(N, 2, U, f32), d_mix_ = at::empty({3 * U, D}, f32);
  d_tokens_ = rows(s.token());
  make_steps();
}

void Scan::make_steps() {
  const int64_t D = shape_.deter, Z = shape_.flat_stoch(), g = shape_.blocks;
  for (int64_t t = 0; t < T_; ++t) {
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, t * R_, R_); };
    const auto block_rows = [&](const at::Tensor& x) { return x.narrow(1, t * R_, R_); };
    const auto blocks = [&](const at::Tensor& x) {
      return x.unflatten(1, {g, D / g}).transpose(0, 1);
    };
    // what goes on to the next step, and what comes back from there
    CarriedRows h_on, z_on, d_h_on, d_z_on;
    if (t + 1 < T_) {
      const at::Tensor on = masked_[t + 1], keep = keep_[t + 1];
      h_on = {on.narrow(1, 0, D), keep}, z_on = {on.narrow(1, D, Z), keep};
      d_h_on = {d_masked_deter_, keep}, d_z_on = {d_masked_stoch_, keep};
    }
    const at::Tensor h = masked_[t].narrow(1, 0, D), feature = rows(feature_);
    const at::Tensor mixed = rows(mixed_), d_mixed = rows(d_mixed_), d_feature = rows(d_feature_);
    const CoreInputs inputs = inputs_.rows(t * R_, R_), d_inputs = d_inputs_.rows(t * R_, R_);
    steps_.push_back({.core = {.h = h,
                               .z = masked_[t].narrow(1, D, Z),
                               .h_blocks = blocks(h),
                               .bounded = {},
                               .inputs = inputs,
                               .pre_deter = inputs.column(inputs.pre, 0),
                               .pre_stoch = inputs.column(inputs.pre, 1),
                               .pre_action = {},
                               .mixed = mixed,
                               .mixed_blocks = blocks(mixed),
                               .inverse_mixed = rows(inverse_[0]),
                               .active = block_rows(active_),
                               .gates = gates_[t],
                               .next = feature.narrow(1, 0, D),
                               .carried = h_on},
                      .pre = rows(pre_),
                      .active = rows(posterior_active_),
                      .inverse = rows(inverse_[1]),
                      .probs = rows(probs_),
                      .one_hot = feature.narrow(1, D, Z),
                      .category = category_[t],
                      .one_hot_on = z_on,
                      .d_h_on = d_h_on,
                      .d_one_hot_on = d_z_on,
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
                      .d_inputs = d_inputs,
                      .d_pre_deter = d_inputs.column(d_inputs.pre, 0),
                      .d_pre_stoch = d_inputs.column(d_inputs.pre, 1)});
  }
}

void Scan::begin(const ScanInputs& in) {
  const int64_t D = shape_.deter;
  at::sub_out(keep_, at::ones({}, keep_.options()), in.is_first);
  // the state before the first step, as it was stored
  const auto keep = keep_[0].unsqueeze(1);
  at::Tensor h = masked_[0].narrow(1, 0, D), z = masked_[0].narrow(1, D, shape_.flat_stoch());
  at::mul_out(h, in.deter, keep);
  at::mul_out(z, one_hot(in.stoch, shape_.classes, h.options()).flatten(1), keep);

  // tokens and actions of all steps; nothing leads to the first step of an episode
  tokens_ = in.tokens;
  write_product(pre_, tokens_, by_token_, core_->products);
  at::mul_out(action_.bounded, in.action.flatten(0, 1).clamp(-1, 1), keep_.view({T_ * R_, 1}));
  core_->add_action(action_, mixed_);
  d_feature_.zero_();
}

void Scan::forward(const ScanInputs& in) {
  c10::InferenceMode guard;
  begin(in);
  for (int64_t t = 0; t < T_; ++t) {
    Step& s = steps_[size_t(t)];
    // of few rows: they end before a conversion and the launch of it would pay
    core_->advance(s.core, Precision::fp32);
    // the posterior of h and the token, which is there already
    add_product(s.pre, s.core.next, by_deter_);
    norm_silu_(s.pre, posterior_.bias, posterior_norm_.scale, kNormEps, s.active, s.inverse);
    write_product(logits_, s.active, posterior_out_.forward);
    draw_categories(categoricals_, logits_, posterior_out_.bias, in.uniforms[t],
                    {s.probs, s.one_hot, s.category, s.one_hot_on});
  }
  round_shared(feature_, core_->products);
}

void Scan::step_back(Step& s) {
  const Core& core = *core_;
  const CoreStep& c = s.core;
  // from the draw, and where it went on to, through the posterior to h
  draw_categories_back(categoricals_, s.probs, s.d_one_hot, s.d_probs, s.d_logits, s.d_one_hot_on);
  write_product(s.d_active, s.d_logits, posterior_out_.back);
  norm_silu_back({s.pre, s.inverse, posterior_norm_.scale, s.d_active}, s.d_pre, s.d_active);
  add_product(s.d_next, s.d_pre, by_deter_back_);
  // through the gates and the mixing layer
  gru_back({c.gates, core.gates_bias.value, c.h}, s.d_next, s.d_gates, d_masked_deter_, s.d_h_on);
  write_product(d_block_, s.d_gates, core.gates_back);
  norm_silu_back({c.mixed, c.inverse_mixed, core.mix_norm.scale, d_block_}, s.d_mixed,
                 s.mixed_terms);
  add_product(d_masked_blocks_, s.d_mixed_blocks, core.mix_blocks_back);
  // and through what both states give to all blocks
  write_product(s.d_inputs.active, s.d_mixed, core.mix_states_back);
  norm_silu_back({c.inputs.pre_rows, c.inputs.inverse, core.state_scale, s.d_inputs.active_rows},
                 s.d_inputs.pre_rows, s.d_inputs.active_rows);
  add_product(d_masked_deter_, s.d_pre_deter, core.from_deter.back);
  write_product(d_masked_stoch_, s.d_pre_stoch, core.from_stoch.back);
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
  const ProductPrecision& products = core.products;
  const int64_t N = T_ * R_, D = shape_.deter, Z = shape_.flat_stoch(), U = shape_.hidden;
  const int64_t g = shape_.blocks, w = D / g;
  const auto add = [&](const at::Tensor& to, const at::Tensor& d, const at::Tensor& x) {
    add_product(to, d.t(), x, products);
  };
  const auto sum = [&](at::Tensor to, const at::Tensor& rows) { add_rows(to, rows, ones); };
  const auto masked = masked_.view({N, D + Z});
  const auto masked_h = masked.narrow(1, 0, D), masked_z = masked.narrow(1, D, Z);

  // the posterior, of h and of tokens
  posterior_out_.add_gradients(d_logits_, posterior_active_, ones);
  add(posterior_.d_weight.narrow(1, 0, D), d_pre_, deter_);
  add(posterior_.d_weight.narrow(1, D, shape_.token()), d_pre_, tokens_);
  sum(posterior_.d_bias, d_pre_), sum(posterior_norm_.d_scale, d_active_);
  write_product(d_tokens_, d_pre_, by_token_back_, products);

  // gates, a product a block
  add_product(core.gates.gradient, active_.transpose(1, 2), d_gates_, products);
  core.gates_bias.gradient.view({g, 3 * w}).add_(d_gates_.sum(1));

  // the mixing layer: a block's own part of h, and the three inputs, of all blocks at once
  const auto blocks = [&](const at::Tensor& x) { return x.unflatten(1, {g, w}).transpose(0, 1); };
  add_product(core.mix.gradient.narrow(1, 0, w), blocks(masked_h).transpose(1, 2), blocks(d_mixed_),
              products);
  write_product(d_mix_.narrow(0, 0, 2 * U), inputs_.active.t(), d_mixed_, products);
  write_product(d_mix_.narrow(0, 2 * U, U), action_.active.t(), d_mixed_, products);
  core.mix.gradient.narrow(1, w, 3 * U).add_(blocks(d_mix_));
  sum(core.mix_bias.gradient, d_mixed_), sum(core.mix_norm.d_scale, mixed_terms_);

  // the layers before it; what their norms' scales get lies where their gradients did
  const auto d_pre_deter = d_inputs_.column(d_inputs_.pre, 0);
  const auto d_pre_stoch = d_inputs_.column(d_inputs_.pre, 1);
  add(core.from_deter.d_weight, d_pre_deter, masked_h), sum(core.from_deter.d_bias, d_pre_deter);
  add(core.from_stoch.d_weight, d_pre_stoch, masked_z), sum(core.from_stoch.d_bias, d_pre_stoch);
  sum(core.deter_norm.d_scale, d_inputs_.column(d_inputs_.active, 0));
  sum(core.stoch_norm.d_scale, d_inputs_.column(d_inputs_.active, 1));
}

void Scan::action_back(BackScratch& scratch) {
  DenseWeights dense = core_->from_action;
  NormWeights norm = core_->action_norm;
  const int64_t N = T_ * R_, U = shape_.hidden;
  at::Tensor d = scratch.d.narrow(0, 0, N * U).view({N, U});
  at::Tensor d_pre = scratch.d_pre.narrow(0, 0, N * U).view({N, U});
  write_product(d, d_mixed_, core_->mix_action_back, core_->products);
  norm_silu_back({action_.pre, action_.inverse, norm.scale, d}, d_pre, d);
  dense.add_gradients(d_pre, action_.bounded, scratch.ones);
  add_rows(norm.d_scale, d, scratch.ones);
}

}  // namespace maglev::dreamer
