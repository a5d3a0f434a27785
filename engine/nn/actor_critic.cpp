#include "engine/nn/actor_critic.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "engine/nn/linear.h"
#include "kernels/tanh/tanh_op.h"

namespace maglev {
namespace {

enum Nonlinearity { kTanh, kFastTanh, kRelu, kSilu };

int activation_of(const NetworkOptions& options) {
  switch (options.activation) {
    case HiddenActivation::tanh:
      return options.fast_tanh ? kFastTanh : kTanh;
    case HiddenActivation::relu:
      return kRelu;
    case HiddenActivation::silu:
      return kSilu;
  }
  return kTanh;
}

at::Tensor activate(at::Tensor x, int kind) {
  switch (kind) {
    case kTanh:
      return x.tanh_();
    case kFastTanh:
      // under autocast products are not f32, which is all the kernel knows
      return x.scalar_type() == at::kFloat ? fast_tanh_(x) : x.tanh_();
    case kRelu:
      return x.relu_();
    default:
      return at::silu(x);
  }
}

}  // namespace

void NetworkOptions::describe(OptionTable& t) {
  t.add("kind", kind, "network");
  t.add("hidden", hidden, "fully connected layers", {.min = 1, .max = 65536, .unit = "units"});
  t.add("channels", channels, "convolution layers of a cnn",
        {.min = 1, .max = 4096, .unit = "channels"});
  t.add("critic_hidden", critic_hidden, "layers between features and value",
        {.min = 1, .max = 65536, .unit = "units"});
  t.add("activation", activation, "activation");
  t.add("fast_tanh", fast_tanh, "tanh by the engine's kernel instead of ATen's");
  t.add("fused_layers", fused_layers,
        "layers of a cnn with relu as one operation instead of ATen's two");
  t.add("shared", shared, "one trunk for policy and value");
  t.add("value_head", value_head, "value head");
  t.add("popart_beta", popart_beta, "least step size of PopArt's moments", {.min = 1e-8, .max = 1});
  t.add("log_std", log_std, "initial log standard deviation of continuous actions",
        {.min = -10, .max = 5});
  t.add("normalize_obs", normalize_obs, "standardise vector observations by running statistics");
}

Trunk::Trunk(Shape shape, const NetworkOptions& options, bool cnn, Initializer& init)
    : activation_(activation_of(options)),
      fused_(cnn && options.fused_layers && activation_ == kRelu),
      low_(cnn && options.bf16) {
  if (low_ && activation_ == kFastTanh) activation_ = kTanh;
  const double gain = std::sqrt(2.0);
  auto layer = [&](const std::string& name, std::vector<int64_t> sizes) {
    auto weight = register_parameter(name + "_weight", init.weight(sizes));
    auto bias = register_parameter(name + "_bias", at::zeros({sizes[0]}));
    init.orthogonal(weight, gain);
    return LayerWeights{weight, bias, {}, {}};
  };
  int64_t channels = shape.channels;
  if (cnn) {
    for (int64_t out : options.channels) {
      conv_.push_back(layer("conv" + std::to_string(conv_.size()), {out, channels, 3, 3}));
      channels = out;
    }
  }
  features_ = channels * shape.height * shape.width + shape.vector + shape.extra;
  for (int64_t out : options.hidden) {
    dense_.push_back(layer("fc" + std::to_string(dense_.size()), {out, features_}));
    features_ = out;
  }
  round_weights();
}

void Trunk::round_weights() {
  if (!low_) return;
  at::NoGradGuard no_grad;
  auto round = [](at::Tensor& low, const at::Tensor& weight) {
    if (!low.defined() || low.device() != weight.device())
      low = at::empty(weight.sizes(), weight.options().dtype(at::kBFloat16));
    low.copy_(weight);
  };
  for (auto* layers : {&conv_, &dense_})
    for (auto& layer : *layers) {
      round(layer.weight_low, layer.weight);
      round(layer.bias_low, layer.bias);
    }
}

void Trunk::share_rounded(const Trunk& original) {
  auto share = [](std::vector<LayerWeights>& to, const std::vector<LayerWeights>& from) {
    for (size_t i = 0; i < to.size(); ++i)
      to[i].weight_low = from[i].weight_low, to[i].bias_low = from[i].bias_low;
  };
  share(conv_, original.conv_);
  share(dense_, original.dense_);
}

at::Tensor Trunk::activated(const at::Tensor& x, const LayerWeights& layer) const {
  const bool conv = layer.weight.dim() == 4;
  if (fused_) return conv ? conv3x3_relu(x, layer) : linear_relu(x, layer);
  auto in = [&](const at::Tensor& weight) { return low_ ? weight.to(at::kBFloat16) : weight; };
  auto y = conv ? at::conv2d(x, in(layer.weight), in(layer.bias), 1, 1)
                : linear(x, in(layer.weight), in(layer.bias));
  return activate(y, activation_);
}

at::Tensor Trunk::forward(const NetInput& input, const at::Tensor& extra) const {
  auto in = [&](const at::Tensor& x) { return low_ ? x.to(at::kBFloat16) : x; };
  at::Tensor x;
  if (input.image.defined()) {
    x = in(input.image);
    for (const auto& layer : conv_) x = activated(x, layer);
    // rows of pixels, channels innermost: no copy from channels-last memory
    x = x.permute({0, 2, 3, 1}).reshape({x.size(0), -1});
  }
  for (const auto* part : {&input.vector, &extra})
    if (part->defined()) x = x.defined() ? at::cat({x, in(*part)}, 1) : in(*part);
  for (const auto& layer : dense_) x = activated(x, layer);
  return low_ ? x.to(at::kFloat) : x;
}

std::vector<DenseTensors> Trunk::dense() const {
  const auto activation = activation_ == kRelu   ? Activation::relu
                          : activation_ == kSilu ? Activation::silu
                                                 : Activation::tanh;
  std::vector<DenseTensors> layers;
  for (const auto& layer : dense_) layers.push_back({layer.weight, layer.bias, activation});
  return layers;
}

ActorCritic::ActorCritic(const EnvSpec& spec, const NetworkOptions& options, Initializer init) {
  encoder_ = register_module("encoder", std::make_shared<ObsEncoder>(spec, options.normalize_obs));
  const bool image = encoder_->channels() > 0;
  const bool cnn =
      options.kind.value_or(image ? NetworkKind::cnn : NetworkKind::mlp) == NetworkKind::cnn;
  if (cnn && !image)
    throw Error(
        "[network] kind=cnn needs an image observation, this environment has vectors only; use "
        "kind=mlp");
  Trunk::Shape shape{encoder_->channels(), encoder_->height(), encoder_->width(),
                     encoder_->vector_size(), 0};
  pixels_ = cnn ? shape.height * shape.width : 1;

  policy_trunk_ =
      register_module("policy_trunk", std::make_shared<Trunk>(shape, options, cnn, init));
  if (!options.shared) {
    auto with_extra = shape;
    with_extra.extra = encoder_->privileged_size();
    value_trunk_ =
        register_module("value_trunk", std::make_shared<Trunk>(with_extra, options, cnn, init));
  }
  const int64_t outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims();
  policy_weight_ =
      register_parameter("policy_weight", init.weight({outputs, policy_trunk_->features()}));
  policy_bias_ = register_parameter("policy_bias", at::zeros({outputs}));
  init.orthogonal(policy_weight_, 0.01);
  if (!spec.action.discrete())
    log_std_ = register_parameter("log_std", at::full({outputs}, options.log_std));

  // a shared trunk leaves the privileged inputs to the layers behind it
  NetworkOptions head = options;
  head.hidden = options.critic_hidden;
  Trunk::Shape critic_shape{0, 0, 0, 0, 0};
  critic_shape.vector = options.shared ? policy_trunk_->features() : value_trunk_->features();
  critic_shape.extra = options.shared ? encoder_->privileged_size() : 0;
  critic_ = register_module("critic", std::make_shared<Trunk>(critic_shape, head, false, init));
  value_head_ = register_module(
      "value_head",
      make_value_head(options.value_head, critic_->features(), options.popart_beta, init));
}

Evaluation ActorCritic::forward(const std::vector<at::Tensor>& columns, Want want) const {
  const auto in = encoder_->forward(columns, want.value);
  Evaluation out;
  at::Tensor features;
  if (want.policy || !value_trunk_) features = policy_trunk_->forward(in.policy, {});
  if (want.policy) out.logits = linear(features, policy_weight_, policy_bias_);
  if (want.value) {
    auto values = value_trunk_ ? value_trunk_->forward(in.policy, in.privileged) : features;
    values = critic_->forward({{}, values}, value_trunk_ ? at::Tensor() : in.privileged);
    out.value = value_head_->forward(values);
  }
  return out;
}

ActorCritic::DenseStacks ActorCritic::dense() const {
  DenseStacks stacks;
  if (policy_trunk_->convolutions() > 0) return stacks;
  (value_trunk_ ? stacks.policy : stacks.shared) = policy_trunk_->dense();
  stacks.policy.push_back({policy_weight_, policy_bias_, Activation::none});
  if (value_trunk_) stacks.value = value_trunk_->dense();
  for (auto& layer : critic_->dense()) stacks.value.push_back(layer);
  stacks.value.push_back({value_head_->weight(), value_head_->bias(), Activation::none});
  return stacks;
}

void ActorCritic::round_weights() {
  for (const auto& trunk : {policy_trunk_, value_trunk_, critic_})
    if (trunk) trunk->round_weights();
}

void ActorCritic::share_rounded(const ActorCritic& original) {
  policy_trunk_->share_rounded(*original.policy_trunk_);
  if (value_trunk_) value_trunk_->share_rounded(*original.value_trunk_);
  critic_->share_rounded(*original.critic_);
}

int64_t ActorCritic::cost() const {
  int64_t macs = 0;
  for (const auto& p : parameters()) macs += p.dim() == 4 ? p.numel() * pixels_ : p.numel();
  return macs;
}

}  // namespace maglev
