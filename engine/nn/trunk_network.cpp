#include "engine/nn/trunk_network.h"

#include <algorithm>

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

  const int64_t outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
  policy_weight_ =
      register_parameter("policy_weight", init.weight({outputs, policy_trunk_->features()}));
  policy_bias_ = register_parameter("policy_bias", at::zeros({outputs}));
  init.orthogonal(policy_weight_, 0.01);
  if (!spec.action.discrete())
    log_std_ = register_parameter("log_std", at::full({outputs}, options.log_std));

  // a shared trunk leaves the privileged inputs to the layers behind it
  Trunk::Shape features{0, 0, 0, 0, 0};
  features.vector = options.shared ? policy_trunk_->features() : value_trunk_->features();
  features.extra = options.shared ? encoder_->privileged_size() : 0;
  critic_ = register_module("critic", std::make_shared<DenseTrunk>(features, options.critic_hidden,
                                                                   options.nonlinearity(), init));
  value_head_ = register_module(
      "value_head",
      make_value_head(options.value_head, critic_->features(), options.popart_beta, init));
}

NetworkOutput TrunkNetwork::forward(const std::vector<at::Tensor>& columns, Want want) {
  return outputs(encoder_->forward(columns, want.value), want, {});
}

NetworkOutput TrunkNetwork::look(const EncodedObs& seen, std::vector<LayerOutput>* layers) {
  std::vector<at::Tensor> policy, value;
  const NetworkOutput out = outputs(seen, {}, {&policy, &value});
  const auto add = [&](const std::string& name, const std::vector<at::Tensor>& from) {
    for (const at::Tensor& output : from)
      layers->push_back({name + " " + std::to_string(&output - from.data() + 1), output});
  };
  if (layers) add(value_trunk_ ? "policy" : "shared", policy), add("value", value);
  return out;
}

NetworkOutput TrunkNetwork::outputs(const EncodedObs& seen, Want want, Notes notes) const {
  const auto noting = [&](std::vector<at::Tensor>* layers) {
    return NetInput{seen.policy.image, seen.policy.vector, layers};
  };
  NetworkOutput out;
  at::Tensor features;
  if (want.policy || !value_trunk_) features = policy_trunk_->forward(noting(notes.policy), {});
  if (want.policy)
    out.logits = in_f32(
        features, [&](const at::Tensor& x) { return linear(x, policy_weight_, policy_bias_); });
  if (want.value) {
    auto values =
        value_trunk_ ? value_trunk_->forward(noting(notes.value), seen.privileged) : features;
    values =
        critic_->forward({{}, values, notes.value}, value_trunk_ ? at::Tensor() : seen.privileged);
    out.value = in_f32(values, [&](const at::Tensor& x) { return value_head_->forward(x); });
  }
  return out;
}

void TrunkNetwork::absorb(const std::vector<at::Tensor>& columns, int64_t T, Group* group) {
  encoder_->absorb(columns, T, group);
}

RowCost TrunkNetwork::cost() const {
  auto trunks = policy_trunk_->cost() + critic_->cost();
  if (value_trunk_) trunks = trunks + value_trunk_->cost();
  // but for what heads take, which is in f32
  const int64_t taken = policy_trunk_->features() + critic_->features();
  trunks.rounded = std::max<int64_t>(0, trunks.outputs - taken);
  return trunks + cost_of(value_head_->parameters()) + cost_of(parameters(/*recurse=*/false));
}

std::optional<DenseStacks> TrunkNetwork::dense() const {
  const auto policy = policy_trunk_->dense();
  if (!policy) return std::nullopt;
  DenseStacks stacks;
  (value_trunk_ ? stacks.policy : stacks.shared) = *policy;
  stacks.policy.push_back({policy_weight_, policy_bias_, Activation::none});
  if (value_trunk_) stacks.value = value_trunk_->dense().value();
  const auto critic = critic_->dense();
  stacks.value.insert(stacks.value.end(), critic->begin(), critic->end());
  stacks.value.push_back({value_head_->weight(), value_head_->bias(), Activation::none});
  stacks.norms = encoder_->norms();
  return stacks;
}

std::string TrunkNetwork::part_of(const std::string& parameter) const {
  // two: the policy with what both see by, and the value
  for (const char* begin : {"value_trunk.", "critic.", "value_head."})
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
