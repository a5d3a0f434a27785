#include "engine/nn/trunk_network.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "engine/nn/autocast.h"
#include "engine/nn/linear.h"

namespace maglev {
namespace {

// what stands behind a trunk is in f32, whatever the trunk computes in: values of 100 in bf16 are
// half apart, and advantages are differences of them
template <class Head>
at::Tensor in_f32(const at::Tensor& features, const Head& head) {
  const WithoutAutocast exact(features.device());
  return head(features.to(at::kFloat));
}

}  // namespace

TrunkNetwork::TrunkNetwork(const EnvSpec& spec, const NetworkOptions& options, Initializer init,
                           const MakeTrunk& make) {
  encoder_ = register_module("encoder", std::make_shared<ObsEncoder>(spec, options.normalize_obs));
  Trunk::Shape shape{encoder_->channels(), encoder_->height(), encoder_->width(),
                     encoder_->vector_size(), 0};
  policy_trunk_ = register_module("policy_trunk", make(shape, init));
  if (!options.shared) {
    shape.extra = encoder_->privileged_size();
    value_trunk_ = register_module("value_trunk", make(shape, init));
  }

  // what heads see: features, or what is remembered of them
  int64_t policy_features = policy_trunk_->features();
  int64_t value_features = value_trunk_ ? value_trunk_->features() : policy_features;
  if (options.memory > 0) {
    const auto add = [&](const char* name, int64_t& features) {
      auto cell = std::make_shared<Cell>(features, options.memory, options.fused_memory, init);
      features = options.memory;
      return register_module(name, cell);
    };
    policy_cell_ = add("policy_cell", policy_features);
    if (value_trunk_) value_cell_ = add("value_cell", value_features);
    else value_features = policy_features;
  }

  const int64_t outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
  policy_weight_ = register_parameter("policy_weight", init.weight({outputs, policy_features}));
  policy_bias_ = register_parameter("policy_bias", at::zeros({outputs}));
  init.orthogonal(policy_weight_, 0.01);
  if (!spec.action.discrete())
    log_std_ = register_parameter("log_std", at::full({outputs}, options.log_std));

  // a shared trunk leaves the privileged inputs to the layers behind it
  Trunk::Shape features{0, 0, 0, 0, 0};
  features.vector = value_features;
  features.extra = options.shared ? encoder_->privileged_size() : 0;
  critic_ = register_module("critic", std::make_shared<DenseTrunk>(features, options.critic_hidden,
                                                                   options.nonlinearity(), init));
  value_head_ = register_module(
      "value_head",
      make_value_head(options.value_head, critic_->features(), options.popart_beta, init));
}

NetworkOutput TrunkNetwork::forward(const std::vector<at::Tensor>& columns, Want want) {
  return outputs(encoder_->forward(columns, want.value), want, {}, nullptr);
}

NetworkOutput TrunkNetwork::forward_through(const std::vector<at::Tensor>& columns, Want want,
                                            Recall& recall) {
  return outputs(encoder_->forward(columns, want.value), want, {}, &recall);
}

NetworkOutput TrunkNetwork::look(const EncodedObs& seen, std::vector<LayerOutput>* layers,
                                 Recall* recall) {
  std::vector<at::Tensor> policy, value;
  const NetworkOutput out = outputs(seen, {}, {&policy, &value}, recall);
  if (!layers) return out;
  const auto add = [&](const std::string& name, const std::vector<at::Tensor>& from) {
    for (const at::Tensor& output : from)
      layers->push_back({name + " " + std::to_string(&output - from.data() + 1), output});
  };
  add(value_trunk_ ? "policy" : "shared", policy), add("value", value);
  // what heads see of a step, and the next begins with
  if (!recall) return out;
  const auto memory = [&](const char* name, int64_t begin, const Cell& cell) {
    layers->push_back({name, recall->state.narrow(1, begin, cell.units())});
  };
  memory(value_cell_ ? "policy memory" : "memory", 0, *policy_cell_);
  if (value_cell_) memory("value memory", policy_cell_->units(), *value_cell_);
  return out;
}

int64_t TrunkNetwork::memory_size() const {
  return (policy_cell_ ? policy_cell_->units() : 0) + (value_cell_ ? value_cell_->units() : 0);
}

at::Tensor TrunkNetwork::logits(const at::Tensor& features) const {
  return in_f32(features,
                [&](const at::Tensor& x) { return linear(x, policy_weight_, policy_bias_); });
}

at::Tensor TrunkNetwork::value(const at::Tensor& features, const at::Tensor& privileged,
                               std::vector<at::Tensor>* notes) const {
  // a trunk of the value's own has seen the privileged inputs
  const auto values =
      critic_->forward({{}, features, notes}, value_trunk_ ? at::Tensor() : privileged);
  return in_f32(values, [&](const at::Tensor& x) { return value_head_->forward(x); });
}

at::Tensor TrunkNetwork::remembered(const Cell& cell, const at::Tensor& features,
                                    const Recall& recall, int64_t begin,
                                    std::vector<at::Tensor>& next) {
  const auto keep = 1 - recall.is_first.to(at::kFloat);
  const auto all = cell.forward(features, recall.state.narrow(1, begin, cell.units()), keep);
  const int64_t B = recall.state.size(0);
  next.push_back(all.narrow(0, all.size(0) - B, B));
  return all;
}

NetworkOutput TrunkNetwork::outputs(const EncodedObs& seen, Want want, Notes notes,
                                    Recall* recall) const {
  const auto noting = [&](std::vector<at::Tensor>* layers) {
    return NetInput{seen.policy.image, seen.policy.vector, layers};
  };
  NetworkOutput out;
  at::Tensor features;
  std::vector<at::Tensor> next;
  if (want.policy || recall || !value_trunk_)
    features = policy_trunk_->forward(noting(notes.policy), {});
  if (recall) features = remembered(*policy_cell_, features, *recall, 0, next);
  if (want.policy) out.logits = logits(features);
  if (want.value && value_trunk_) {
    features = value_trunk_->forward(noting(notes.value), seen.privileged);
    if (recall) features = remembered(*value_cell_, features, *recall, policy_cell_->units(), next);
  } else if (recall && value_cell_) {
    next.push_back(recall->state.narrow(1, policy_cell_->units(), value_cell_->units()));
  }
  if (want.value) out.value = value(features, seen.privileged, notes.value);
  if (recall) recall->state = next.size() == 1 ? next[0] : at::cat(next, 1);
  return out;
}

void TrunkNetwork::absorb(const std::vector<at::Tensor>& columns, const at::Tensor& is_first,
                          int64_t T, Group* group) {
  encoder_->absorb(columns, is_first, T, group);
}

RowCost TrunkNetwork::cost() const {
  auto trunks = policy_trunk_->cost() + critic_->cost();
  if (value_trunk_) trunks = trunks + value_trunk_->cost();
  // but for what heads take, which is in f32
  const int64_t taken = policy_trunk_->features() + critic_->features();
  trunks.rounded = std::max<int64_t>(0, trunks.outputs - taken);
  // as is what is remembered
  for (const auto& cell : {policy_cell_, value_cell_})
    if (cell) trunks = trunks + cell->cost();
  return trunks + cost_of(value_head_->parameters()) + cost_of(parameters(/*recurse=*/false));
}

std::optional<DenseStacks> TrunkNetwork::dense() const {
  const auto policy = policy_trunk_->dense();
  if (!policy) return std::nullopt;
  DenseStacks stacks;
  if (policy_cell_) {
    // heads begin with what is remembered
    auto cell = policy_cell_->dense(*policy);
    if (!cell) return std::nullopt;
    stacks.cells.push_back(std::move(*cell));
    if (value_trunk_)
      stacks.cells.push_back(value_cell_->dense(value_trunk_->dense().value()).value());
  } else {
    (value_trunk_ ? stacks.policy : stacks.shared) = *policy;
    if (value_trunk_) stacks.value = value_trunk_->dense().value();
  }
  stacks.policy.push_back({policy_weight_, policy_bias_, Activation::none});
  const auto critic = critic_->dense();
  stacks.value.insert(stacks.value.end(), critic->begin(), critic->end());
  stacks.value.push_back({value_head_->weight(), value_head_->bias(), Activation::none});
  stacks.norms = encoder_->norms();
  return stacks;
}

std::string TrunkNetwork::part_of(const std::string& parameter) const {
  // two: the policy with what both see by, and the value
  for (const char* begin : {"value_trunk.", "value_cell.", "critic.", "value_head."})
    if (parameter.starts_with(begin)) return "value";
  return "policy";
}

void TrunkNetwork::round_weights() {
  policy_trunk_->round_weights();
  if (value_trunk_) value_trunk_->round_weights();
}

void TrunkNetwork::share_rounded(const ActorCritic& original) {
  const auto& from = static_cast<const TrunkNetwork&>(original);
  policy_trunk_->share_rounded(*from.policy_trunk_);
  if (value_trunk_) value_trunk_->share_rounded(*from.value_trunk_);
}

}  // namespace maglev
