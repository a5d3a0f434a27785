#include "algos/dreamer/learner_state.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"

namespace maglev::dreamer {
namespace {

std::shared_ptr<Networks> networks_on(const ModelShape& shape, uint64_t seed, at::Device device) {
  auto networks = std::make_shared<Networks>(shape, Initializer(seed));
  networks->to(device);
  return networks;
}

std::shared_ptr<Head> value_network_on(const ModelShape& shape, at::Device device) {
  Initializer none = Initializer::none();
  auto network = make_value_network(shape, none);
  network->to(device);
  return network;
}

}  // namespace

std::vector<std::string> figure_names(Objective objective) {
  return {std::string("loss/") + name_of(objective),
          "loss/reward",
          "loss/continue",
          "loss/dynamics",
          "loss/representation",
          "loss/policy",
          "loss/value",
          "loss/replay_value",
          "loss/total",
          "loss/grad_norm",
          "model/divergence",
          "policy/entropy",
          "value/return",
          "value/range"};
}

LearnerState::LearnerState(const Options& options, const ModelShape& shape, uint64_t seed,
                           at::Device device)
    : networks(networks_on(shape, seed, device)),
      params(*networks, shape.alignment),
      grad(at::zeros_like(params.data())),
      slow_value(value_network_on(shape, device)),
      slow_params(*slow_value, shape.alignment),
      optimizer(params, {.clip = options.clip, .fused = options.fused.value_or(true)}),
      lr(at::zeros({}, params.data().options())),
      skip(at::zeros_like(lr)),
      range(at::zeros({2}, lr.options())),
      updates(at::zeros({}, lr.options().dtype(at::kLong))) {
  begin_slow_value();
}

at::Tensor LearnerState::online_value() const {
  const auto& all = params.module_ranges().back();
  MAGLEV_ASSERT(all.name == "value" && all.count == slow_params.size(),
                "the value network comes last, laid out as the slow one");
  return params.data().narrow(0, all.begin, all.count);
}

void LearnerState::begin_slow_value() {
  at::NoGradGuard no_grad;
  slow_params.data().copy_(online_value());
}

void LearnerState::set_learning_rate(double rate, int64_t warmup) {
  at::NoGradGuard no_grad;
  if (warmup == 0) lr.fill_(rate);
  else lr.copy_(rate * (updates / double(warmup)).clamp_max(1));
}

void LearnerState::finish_update(double rate) {
  at::NoGradGuard no_grad;
  at::Tensor slow = slow_params.data();
  slow.lerp_(online_value(), rate);
  updates.add_(1);
}

void LearnerState::visit(StateVisitor& visitor) {
  networks->visit_acting(visitor);
  networks->visit_learning(visitor);
  visitor.section("slow_value", [&](StateVisitor& v) { visit_module(*slow_value, v); });
  visitor.section("optimizer", [&](StateVisitor& v) { optimizer.visit_state(v); });
  visitor.tensor("range", range);
  visitor.tensor("updates", updates);
}

}  // namespace maglev::dreamer
