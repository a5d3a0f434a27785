// Convolutions on the image an environment shows, fully connected layers behind them on what comes
// out and on the vector beside it. In f32 or, with weights that it rounds itself, in bf16.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/nn/linear.h"
#include "engine/nn/trunk_network.h"
#include "kernels/relu_layers/relu_layers_op.h"

namespace maglev::networks::cnn {

namespace {

struct Options {
  std::vector<int64_t> channels = {32, 64, 64};
  bool fused_layers = true;  ///< relu layers by kernels/relu_layers; false: ATen's

  void describe(OptionTable& t) {
    t.add("channels", channels, "convolution layers, 3x3, padding 1",
          {.min = 1, .max = 4096, .unit = "channels"});
    t.add("fused_layers", fused_layers, "layers with relu as one operation instead of ATen's two",
          {.free = true});
  }
};

class ConvTrunk : public Trunk {
 public:
  ConvTrunk(const Shape& shape, const NetworkOptions& options, bool bf16, Initializer& init)
      : nonlinearity_(options.nonlinearity()), low_(bf16), pixels_(shape.height * shape.width) {
    const auto& own = options.own_as<Options>();
    fused_ = own.fused_layers && options.activation == HiddenActivation::relu;
    const auto add = [&](std::vector<LayerWeights>& to, const char* name,
                         const std::vector<int64_t>& sizes) {
      auto [weight, bias] = add_layer(name + std::to_string(to.size()), sizes, init);
      to.push_back({weight, bias, {}, {}});
    };
    Shape seen = shape;
    for (int64_t out : own.channels) {
      add(conv_, "conv", {out, seen.channels, 3, 3});
      seen.channels = out;
    }
    features_ = seen.elements();
    for (int64_t out : options.hidden) {
      add(dense_, "fc", {out, features_});
      features_ = out;
    }
    round_weights();
  }

  at::Tensor forward(const NetInput& input, const at::Tensor& extra) override {
    const auto in = [&](const at::Tensor& x) {
      return low_ && x.defined() ? x.to(at::kBFloat16) : x;
    };
    NetInput seen{in(input.image), in(input.vector)};
    for (const auto& layer : conv_) seen.image = input.noted(activated(seen.image, layer));
    auto x = side_by_side(seen, in(extra));
    for (const auto& layer : dense_) x = input.noted(activated(x, layer));
    return low_ ? x.to(at::kFloat) : x;
  }

  int64_t features() const override { return features_; }

  // a convolution's weights are used once a pixel
  RowCost cost() const override {
    RowCost cost = cost_of(parameters());
    for (const auto& layer : conv_) {
      const int64_t out = layer.weight.size(0) * pixels_, in = layer.weight.size(1) * pixels_;
      cost.multiply_adds += layer.weight.numel() * (pixels_ - 1);
      cost.outputs += out - layer.weight.size(0);
      const bool first = &layer == &conv_.front();
      cost.convolved += out;
      if (first) cost.seen = in;
      cost.passing = std::max(cost.passing, out + (first ? 0 : in));
    }
    return cost;
  }

  bool rounds_weights() const override { return low_; }

  void round_weights() override {
    if (!low_) return;
    at::NoGradGuard no_grad;
    const auto round = [](at::Tensor& low, const at::Tensor& weight) {
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

  void share_rounded(const Trunk& original) override {
    const auto share = [](std::vector<LayerWeights>& to, const std::vector<LayerWeights>& from) {
      for (size_t i = 0; i < to.size(); ++i)
        to[i].weight_low = from[i].weight_low, to[i].bias_low = from[i].bias_low;
    };
    const auto& from = static_cast<const ConvTrunk&>(original);
    share(conv_, from.conv_);
    share(dense_, from.dense_);
  }

 private:
  at::Tensor activated(const at::Tensor& x, const LayerWeights& layer) const {
    const bool conv = layer.weight.dim() == 4;
    if (fused_) return conv ? conv3x3_relu(x, layer) : linear_relu(x, layer);
    const auto in = [&](const at::Tensor& weight) {
      return low_ ? weight.to(at::kBFloat16) : weight;
    };
    auto y = conv ? at::conv2d(x, in(layer.weight), in(layer.bias), 1, 1)
                  : linear(x, in(layer.weight), in(layer.bias));
    return activate(y, nonlinearity_);
  }

  Nonlinearity nonlinearity_;
  bool fused_, low_;  ///< low_: bf16
  int64_t features_, pixels_;
  std::vector<LayerWeights> conv_, dense_;
};

}  // namespace

NetworkEntry entry() {
  return {.name = "cnn",
          .summary = "convolutions, then fully connected layers",
          .needs = "an image observation",
          .suits = [](const EnvSpec& spec) { return shows_image(spec) ? Suits::best : Suits::no; },
          .own = own_settings<Options>(),
          .make = [](const NetworkOptions& options, const NetworkContext& context,
                     Initializer init) -> std::shared_ptr<ActorCritic> {
            const auto trunk = [&](const Trunk::Shape& shape, Initializer& init) {
              return std::make_shared<ConvTrunk>(shape, options, context.bf16, init);
            };
            return std::make_shared<TrunkNetwork>(context.spec, options, init, trunk);
          }};
}

}  // namespace maglev::networks::cnn
