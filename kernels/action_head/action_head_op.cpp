#include "kernels/action_head/action_head_op.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/action_head/action_head.h"

namespace maglev {
namespace {

ActionHead action_head_of(const ActionRows& a, const at::Tensor& action) {
  MAGLEV_ASSERT(a.head.is_contiguous() && action.is_contiguous(), "rows one behind another");
  const bool chooses = a.choices.defined();
  const ActionHead head{.rows = a.head.size(0),
                        .actions = action.size(-1),
                        .choices = chooses ? a.choices.const_data_ptr<int64_t>() : nullptr,
                        .choice_count = chooses ? a.choices.size(0) : 0};
  MAGLEV_ASSERT(a.head.size(1) == head.width() && a.bias.size(0) == head.width(),
                "as wide as actions, twice for continuous ones");
  return head;
}

// probabilities and their logarithms, choice by choice, side by side; the rest is ATen's
at::Tensor log_probs_reference(const at::Tensor& head, const std::vector<int64_t>& choices) {
  Tensors parts;
  for (const auto& logits : head.split_with_sizes(choices, -1))
    parts.push_back(at::log_softmax(logits, -1));
  return at::cat(parts, -1);
}

struct ActionHeadShape {
  int64_t rows, actions;
  std::vector<int64_t> choices = {};
};

struct ActionHeadInputs {
  at::Tensor head, bias, choices, number, action, returns, value, weight, range;
};

ActionHeadInputs action_head_inputs(const ActionHeadShape& s, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows * 100 + s.actions));
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
  const bool chooses = !s.choices.empty();
  const int64_t width = chooses ? s.actions : 2 * s.actions;
  ActionHeadInputs in{.head = randn({s.rows, width}), .bias = randn({width})};
  if (chooses) in.choices = at::tensor(s.choices, at::kLong).to(device);
  in.number = chooses ? at::rand({s.rows, int64_t(s.choices.size())}, gen).to(device)
                      : randn({s.rows, s.actions});
  in.action = randn({s.rows, s.actions}), in.returns = randn({s.rows}), in.value = randn({s.rows});
  in.weight = at::rand({s.rows}, gen).to(device), in.range = at::full({}, 1.7, in.head.options());
  return in;
}

std::string action_head_name(const char* what, const ActionHeadShape& s) {
  std::string name = std::string(what) + " rows=" + std::to_string(s.rows);
  if (s.choices.empty()) return name + " A=" + std::to_string(s.actions);
  for (size_t k = 0; k < s.choices.size(); ++k)
    name += (k == 0 ? " choices=" : "+") + std::to_string(s.choices[k]);
  return name;
}

KernelCase action_draw_case(const ActionHeadShape& s, at::Device device) {
  const auto in = action_head_inputs(s, device);
  return {.name = action_head_name("draw", s),
          .reference =
              [=](const Tensors&) {
                const auto head = in.head + in.bias;
                if (s.choices.empty()) {
                  const auto parts = head.chunk(2, -1);
                  const auto std =
                      (kMostActionStd - kLeastActionStd) * at::sigmoid(parts[1] + kFirstActionStd) +
                      kLeastActionStd;
                  const auto action = at::tanh(parts[0]) + std * in.number;
                  return Tensors{action, action.clamp(-1, 1)};
                }
                Tensors drawn;
                const auto probs = log_probs_reference(head, s.choices).exp();
                for (const auto& p : probs.split_with_sizes(s.choices, -1)) {
                  const auto ends = p.narrow(-1, 0, p.size(-1) - 1).cumsum(-1);
                  const auto number = in.number.narrow(-1, int64_t(drawn.size()), 1);
                  const auto category = (ends <= number).sum(-1);
                  drawn.push_back(at::one_hot(category, p.size(-1)).to(at::kFloat));
                }
                const auto action = at::cat(drawn, -1);
                return Tensors{action, action};
              },
          .fused =
              [=](const Tensors&) {
                auto action = at::empty_like(in.action), bounded = at::empty_like(in.action);
                draw_actions({in.head, in.bias, in.choices}, in.number, action, bounded);
                return Tensors{action, bounded};
              },
          .tolerance = 2e-6,
          .bytes = s.rows * s.actions * 20,
          .flops = s.rows * s.actions * 50};
}

KernelCase action_loss_case(const ActionHeadShape& s, at::Device device) {
  constexpr double kFactor = 0.7, kEntropy = 0.3;
  auto in = action_head_inputs(s, device);
  if (!s.choices.empty()) {
    // actions that were drawn
    auto bounded = at::empty_like(in.action);
    draw_actions({in.head, in.bias, in.choices}, in.number, in.action, bounded);
  }
  const auto run = [=](const at::Tensor& x, at::Tensor& loss, at::Tensor& entropy) {
    auto head = x.detach().clone();
    loss = at::empty_like(in.returns), entropy = at::empty_like(in.returns);
    action_loss({head, in.bias, in.choices},
                {in.action, in.returns, in.value, in.weight, in.range, kFactor, kEntropy}, loss,
                entropy, head);
    return head;
  };
  return {.name = action_head_name("loss", s),
          .inputs = {in.head},
          .reference =
              [=](const Tensors& inputs) {
                const auto head = inputs[0] + in.bias.to(inputs[0].dtype());
                at::Tensor likelihood, entropy;
                if (s.choices.empty()) {
                  const auto parts = head.chunk(2, -1);
                  const auto std =
                      (kMostActionStd - kLeastActionStd) * at::sigmoid(parts[1] + kFirstActionStd) +
                      kLeastActionStd;
                  const auto away = (in.action - at::tanh(parts[0])) / std;
                  const double constant = 0.5 * std::log(2 * M_PI);
                  likelihood = (-0.5 * away.square() - std.log() - constant).sum(-1);
                  entropy = (std.log() + constant + 0.5).sum(-1);
                } else {
                  const auto log_probs = log_probs_reference(head, s.choices);
                  likelihood = (log_probs * in.action).sum(-1);
                  entropy = -(log_probs.exp() * log_probs).sum(-1);
                }
                const auto advantage = (in.returns - in.value) / in.range;
                const auto loss =
                    -kFactor * in.weight * (likelihood * advantage + kEntropy * entropy);
                return Tensors{loss, entropy.detach()};
              },
          .fused =
              [=](const Tensors& inputs) {
                at::Tensor loss, entropy;
                run(inputs[0], loss, entropy);
                return Tensors{loss, entropy};
              },
          .backward =
              [=](const Tensors& inputs, const Tensors& grad) {
                // rows have nothing to do with each other
                at::Tensor loss, entropy;
                return Tensors{run(inputs[0], loss, entropy) * grad[0].unsqueeze(1)};
              },
          .tolerance = Tolerance::of_sums(4 * s.actions + 60),
          .bytes = s.rows * s.actions * 20,
          .flops = s.rows * s.actions * 80};
}

std::vector<KernelCase> action_head_cases(at::Device device) {
  std::vector<KernelCase> cases;
  for (const ActionHeadShape& s :
       {ActionHeadShape{1, 1}, {5, 17}, {512, 6}, {3, 5, {3, 2}}, {200, 18, {18}}}) {
    cases.push_back(action_draw_case(s, device));
    cases.push_back(action_loss_case(s, device));
  }
  return cases;
}

}  // namespace

void draw_actions(const ActionRows& of, const at::Tensor& number, at::Tensor& action,
                  at::Tensor& bounded) {
  const at::Device device =
      device_of("action_head", of.head, of.bias, of.choices, number, action, bounded);
  const ActionHead head = action_head_of(of, action);
  MAGLEV_ASSERT(number.is_contiguous() && number.numel() == head.rows * head.numbers() &&
                    bounded.is_contiguous(),
                "a number each dimension or choice");
  launch<action_draw_cuda>("action_head", device, action_draw_cpu,
                           ActionDraw{.of = head,
                                      .head = of.head.const_data_ptr<float>(),
                                      .bias = of.bias.const_data_ptr<float>(),
                                      .number = number.const_data_ptr<float>(),
                                      .action = action.data_ptr<float>(),
                                      .bounded = bounded.data_ptr<float>()});
}

void action_loss(const ActionRows& of, const TakenActions& t, at::Tensor& loss, at::Tensor& entropy,
                 at::Tensor& d_head) {
  const at::Device device = device_of("action_head", d_head, of.head, of.bias, of.choices, t.action,
                                      t.returns, t.value, t.weight, t.range, loss, entropy);
  launch<action_loss_cuda>("action_head", device, action_loss_cpu,
                           ActionLoss{.of = action_head_of(of, t.action),
                                      .head = of.head.const_data_ptr<float>(),
                                      .bias = of.bias.const_data_ptr<float>(),
                                      .action = t.action.const_data_ptr<float>(),
                                      .returns = t.returns.const_data_ptr<float>(),
                                      .value = t.value.const_data_ptr<float>(),
                                      .weight = t.weight.const_data_ptr<float>(),
                                      .range = t.range.const_data_ptr<float>(),
                                      .factor = float(t.factor),
                                      .entropy_coef = float(t.entropy_coef),
                                      .loss = loss.data_ptr<float>(),
                                      .entropy = entropy.data_ptr<float>(),
                                      .d_head = d_head.data_ptr<float>()});
}

namespace kernels::action_head {
KernelEntry entry() {
  return {"action_head", "actions drawn of a policy's outputs; its loss, with the gradient",
          action_head_cases};
}
}  // namespace kernels::action_head

}  // namespace maglev
