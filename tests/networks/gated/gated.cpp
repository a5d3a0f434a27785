// A network as a user may bring it: an ActorCritic as a whole, of torch's own modules, that leaves
// everything with a default at its default. Its hidden units are gated (Dauphin et al., "Language
// modeling with gated convolutional networks", 2017).

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/linear.h>

#include "engine/nn/network.h"
#include "engine/nn/obs_encoder.h"

namespace maglev::networks::gated {
namespace {

struct Options {
  int64_t units = 32;

  void describe(OptionTable& t) {
    t.add("units", units, "gated units", {.min = 1, .max = 65536, .unit = "units"});
  }
};

class Gated : public ActorCritic {
 public:
  Gated(const NetworkOptions& options, const NetworkContext& context, Initializer init)
      : observations_(context.spec.observations) {
    const auto& action = context.spec.action;
    const int64_t units = options.own_as<Options>().units;
    const int64_t outputs = action.discrete() ? action.categories() : action.dims();
    int64_t seen = 0, secret = 0;
    for (const auto& o : observations_)
      (o.audience == Audience::critic ? secret : seen) += o.elements();

    content_ = register_module("content", torch::nn::Linear(seen, units));
    gate_ = register_module("gate", torch::nn::Linear(seen, units));
    policy_head_ = register_module("policy_head", torch::nn::Linear(units, outputs));
    value_head_ = register_module("value_head", make_value_head(options.value_head, units + secret,
                                                                options.popart_beta, init));
    if (!action.discrete())
      log_std_ = register_parameter("log_std", at::full({outputs}, options.log_std));

    // torch's modules begin with numbers of torch's own
    at::NoGradGuard no_grad;
    for (auto* layer : {&content_, &gate_, &policy_head_}) {
      init.orthogonal((*layer)->weight, layer == &policy_head_ ? 0.01 : 1);
      (*layer)->bias.zero_();
    }
  }

  Output forward(const std::vector<at::Tensor>& columns, Want want) override {
    std::vector<at::Tensor> seen, secret;
    for (size_t i = 0; i < columns.size(); ++i)
      (observations_[i].audience == Audience::critic ? secret : seen)
          .push_back(columns[i].flatten(1).to(at::kFloat));
    const auto x = at::cat(seen, 1);
    const auto hidden = content_(x).tanh() * gate_(x).sigmoid();
    Output out;
    if (want.policy) out.logits = policy_head_(hidden);
    if (!want.value) return out;
    secret.insert(secret.begin(), hidden);
    out.value = value_head_->forward(at::cat(secret, 1));
    return out;
  }

  ValueHead& value_head() const override { return *value_head_; }
  at::Tensor log_std() const override { return log_std_; }

 private:
  std::vector<ObsColumn> observations_;
  torch::nn::Linear content_{nullptr}, gate_{nullptr}, policy_head_{nullptr};
  std::shared_ptr<ValueHead> value_head_;
  at::Tensor log_std_;
};

}  // namespace

NetworkEntry entry() {
  return {.name = "gated",
          .summary = "gated units, for tests of networks that users bring",
          .needs = "vectors alone",
          .suits = [](const EnvSpec& s) { return shows_image(s) ? Suits::no : Suits::yes; },
          .own = own_settings<Options>(),
          .make = [](const NetworkOptions& options, const NetworkContext& context,
                     Initializer init) -> std::shared_ptr<ActorCritic> {
            return std::make_shared<Gated>(options, context, init);
          }};
}

}  // namespace maglev::networks::gated
