#include "algos/tdmpc2/learner_state.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"

namespace maglev::tdmpc2 {
namespace {

constexpr double kModelEps = 1e-8, kPolicyEps = 1e-5;

// elements of the target networks a thread moves at once
constexpr int64_t kTargetPart = 1 << 17;

std::shared_ptr<WorldModel> make_model(const Options& options, const ModelShape& shape,
                                       uint64_t seed, at::Device device) {
  auto model =
      std::make_shared<WorldModel>(shape, options.q_init == QInit::kaiming, Initializer(seed));
  model->to(device);
  return model;
}

FlatAdam model_optimizer(const Options& options, const ModelLayout& layout,
                         const FlatParams& params) {
  // the encoder is a group of its own: it learns at a share of the rate
  const int64_t encoder = layout.encoder_end(), model = layout.policy_begin();
  return {params,
          {.begin = 0,
           .count = model,
           .groups = {{0, encoder}, {encoder, model - encoder}},
           .rates = {float(options.enc_lr_scale), 1.f}},
          {.eps = kModelEps, .max_grad_norm = options.grad_clip}};
}

FlatAdam policy_optimizer(const Options& options, const ModelLayout& layout,
                          const FlatParams& params) {
  const int64_t begin = layout.policy_begin(), count = layout.size() - begin;
  return {params,
          {.begin = begin, .count = count, .groups = {{0, count}}, .rates = {1.f}},
          {.eps = kPolicyEps, .max_grad_norm = options.grad_clip}};
}

std::vector<FlatRange> ranges_of_q(const LearnerState& state) {
  const ModelLayout& layout = state.model->layout();
  MAGLEV_ASSERT(layout.size() == state.params.size(), "the layout is the flat buffer's");
  return ranges_within(state.params.ranges(), layout.q_begin(), layout.q_end() - layout.q_begin());
}

at::Tensor online_q(const LearnerState& state) {
  const ModelLayout& layout = state.model->layout();
  return state.params.data().narrow(0, layout.q_begin(), layout.q_end() - layout.q_begin());
}

}  // namespace

const std::vector<std::string>& figure_names() {
  static const std::vector<std::string> names{
      "loss/consistency", "loss/reward",    "loss/value",  "loss/termination",
      "loss/model",       "loss/grad_norm", "loss/policy", "loss/entropy",
      "loss/policy_norm", "value/scale",    "value/mean",  "value/target"};
  return names;
}

LearnerState::LearnerState(const Options& options, const ModelShape& shape, uint64_t seed,
                           at::Device device)
    : model(make_model(options, shape, seed, device)),
      params(*model, shape.alignment),
      grad(at::zeros_like(params.data())),
      target_q(online_q(*this).clone()),
      q_ranges(ranges_of_q(*this)),
      model_adam(model_optimizer(options, model->layout(), params)),
      policy_adam(policy_optimizer(options, model->layout(), params)),
      lr(at::full({}, options.lr, params.data().options())),
      skip(at::zeros_like(lr)),
      scale(at::ones_like(lr)),
      updates(at::zeros({}, lr.options().dtype(at::kLong))) {}

void LearnerState::begin_targets() {
  at::NoGradGuard no_grad;
  target_q.copy_(online_q(*this));
}

void LearnerState::finish_update(double tau, ThreadPool& pool) {
  at::NoGradGuard no_grad;
  // a graph may replay this: the counter too is counted where it is
  if (!grad.is_cpu()) {
    target_q.lerp_(online_q(*this), tau);
    updates.add_(1);
  } else {
    // without anything ATen would ask the heap for
    const float* online = params.data().const_data_ptr<float>() + model->layout().q_begin();
    float* target = target_q.data_ptr<float>();
    const int64_t size = target_q.numel();
    pool.run((size + kTargetPart - 1) / kTargetPart, [=](int64_t part) {
      const int64_t end = std::min(size, (part + 1) * kTargetPart);
      for (int64_t i = part * kTargetPart; i < end; ++i)
        target[i] += float(tau) * (online[i] - target[i]);
    });
    ++*updates.data_ptr<int64_t>();
  }
  // what torch's max_norm=1 does at every look-up, once an update
  if (model->shape().tasks > 0) model->embeddings().renorm_(2, 0, 1);
}

void LearnerState::visit(StateVisitor& visitor) {
  visitor.section("model", [&](StateVisitor& v) { visit_module(*model, v); });
  visit_packed("target_q", target_q, q_ranges, visitor);
  visitor.section("model_optimizer", [&](StateVisitor& v) { model_adam.visit_state(v); });
  visitor.section("policy_optimizer", [&](StateVisitor& v) { policy_adam.visit_state(v); });
  visitor.tensor("scale", scale);
  visitor.tensor("updates", updates);
}

}  // namespace maglev::tdmpc2
