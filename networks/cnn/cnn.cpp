// Convolutions on the image an environment shows, fully connected layers behind them on what comes
// out and on the vector beside it. In f32 or, with weights that it rounds itself, in bf16.

#include <algorithm>
#include <array>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "engine/nn/linear.h"
#include "engine/nn/trunk_network.h"
#include "kernels/relu_layers/relu_layers_op.h"

namespace maglev::networks::cnn {

namespace {

/// What a convolution sees of an image, and how far the next place is.
struct Window {
  int64_t kernel = 3;
  ConvSteps steps = {};

  int64_t places(int64_t side) const { return steps.places(side, kernel); }
};

struct Size {
  int64_t height, width;

  int64_t pixels() const { return height * width; }
};

/// Kernels and strides with which three layers see pictures (Mnih et al., "Human-level control
/// through deep reinforcement learning", 2015, there without padding).
constexpr std::array<Window, 3> kForPictures{{{8, {.stride = 4}}, {4, {.stride = 2}}, {3, {}}}};
constexpr int64_t kPictureSide = 36;

struct Options {
  std::vector<int64_t> channels = {32, 64, 64};
  std::vector<int64_t> kernels = {}, strides = {}, paddings = {};
  bool fused_layers = true;  ///< relu layers by kernels/relu_layers; false: ATen's
  bool winograd = true;      ///< f32 3x3 convolutions in tiles; false: oneDNN's

  void describe(OptionTable& t) {
    t.add("channels", channels, "convolution layers", {.min = 1, .max = 4096, .unit = "channels"});
    t.add("kernels", kernels,
          "pixels a side that each sees; empty: 3 each, and where strides are empty too, for three "
          "layers on pictures of 36 pixels a side and more, 8, 4 and 3",
          {.min = 1, .max = 64, .unit = "pixels"});
    t.add("strides", strides,
          "pixels from one place to the next, of each; empty: 1 each, beside kernels of 8, 4 and 3 "
          "that nobody gave 4, 2 and 1",
          {.min = 1, .max = 64, .unit = "pixels"});
    t.add("paddings", paddings,
          "zeros around what each sees; empty: (kernel - 1) / 2 each, with which kernels of odd "
          "numbers and stride 1 keep an image's size",
          {.min = 0, .max = 63, .unit = "pixels"});
    t.add("fused_layers", fused_layers, "layers with relu as one operation instead of ATen's two",
          {.free = true});
    t.add("winograd", winograd,
          "3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3), in fewer products and alike but "
          "for rounding: on a processor in fp32, where channels are multiples of 16 and images "
          "large enough; needs fused_layers and activation=relu. false: oneDNN's",
          {.free = true});
  }

  /// Of each layer; cells of a grid are no `pictures`. Throws Error where a list is of another number
  /// of layers.
  std::vector<Window> windows(Size image, bool pictures) const {
    std::vector<Window> windows(channels.size());
    const bool none_given = kernels.empty() && strides.empty();
    if (none_given && pictures && channels.size() == kForPictures.size() &&
        std::min(image.height, image.width) >= kPictureSide)
      windows.assign(kForPictures.begin(), kForPictures.end());
    const auto take = [&](const char* name, const std::vector<int64_t>& list, auto&& put) {
      if (list.empty()) return;
      if (list.size() != windows.size())
        throw Error("[network] network.cnn." + std::string(name) +
                    " must name one for each of the " + std::to_string(windows.size()) +
                    " layers of network.cnn.channels, got " + std::to_string(list.size()));
      for (size_t i = 0; i < list.size(); ++i) put(windows[i], list[i]);
    };
    take("kernels", kernels, [](Window& w, int64_t kernel) { w.kernel = kernel; });
    take("strides", strides, [](Window& w, int64_t stride) { w.steps.stride = stride; });
    for (Window& w : windows) w.steps.padding = (w.kernel - 1) / 2;
    take("paddings", paddings, [](Window& w, int64_t padding) { w.steps.padding = padding; });
    return windows;
  }
};

class ConvTrunk : public Trunk {
 public:
  ConvTrunk(const Shape& shape, const NetworkOptions& options, const NetworkContext& context,
            Initializer& init)
      : nonlinearity_(options.nonlinearity()), low_(context.bf16), on_cuda_(context.on_cuda) {
    const auto& own = options.own_as<Options>();
    const bool pictures = std::ranges::none_of(
        context.spec.observations, [](const ObsColumn& column) { return column.cells.bits > 0; });
    windows_ = own.windows({shape.height, shape.width}, pictures);
    every_pixel_ =
        std::ranges::all_of(windows_, [](const Window& w) { return w.steps.stride == 1; });
    fused_ = own.fused_layers && options.activation == HiddenActivation::relu;
    winograd_ = fused_ && own.winograd && !low_ && !context.on_cuda;
    const auto add = [&](std::vector<LayerWeights>& to, const char* name,
                         const std::vector<int64_t>& sizes) {
      auto [weight, bias] = add_layer(name + std::to_string(to.size()), sizes, init);
      to.push_back({weight, bias, {}, {}});
    };
    Shape seen = shape;
    sizes_.push_back({seen.height, seen.width});
    for (size_t i = 0; i < windows_.size(); ++i) {
      const Window& window = windows_[i];
      add(conv_, "conv", {own.channels[i], seen.channels, window.kernel, window.kernel});
      seen.channels = own.channels[i];
      seen.height = window.places(seen.height), seen.width = window.places(seen.width);
      if (seen.height < 1 || seen.width < 1)
        throw Error("[network] layer " + std::to_string(i + 1) +
                    " of network.cnn leaves nothing of the image: smaller kernels or strides, "
                    "paddings, or fewer layers");
      sizes_.push_back({seen.height, seen.width});
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
    for (size_t i = 0; i < conv_.size(); ++i)
      seen.image = input.noted(convolved(seen.image, conv_[i], windows_[i]));
    auto x = side_by_side(seen, in(extra));
    for (const auto& layer : dense_) x = input.noted(connected(x, layer));
    // on a device what stands behind is in bf16 too
    return low_ && !on_cuda_ ? x.to(at::kFloat) : x;
  }

  int64_t features() const override { return features_; }

  // a convolution's weights are used once a pixel
  RowCost cost() const override {
    RowCost cost = cost_of(parameters());
    for (size_t i = 0; i < conv_.size(); ++i) {
      const at::Tensor& weight = conv_[i].weight;
      const int64_t places = sizes_[i + 1].pixels();
      const int64_t out = weight.size(0) * places, in = weight.size(1) * sizes_[i].pixels();
      cost.multiply_adds += weight.numel() * (places - 1);
      cost.outputs += out - weight.size(0);
      const bool first = i == 0;
      cost.convolved += out;
      if (first) cost.seen = in;
      const int64_t scratch =
          winograd_ ? winograd_scratch(weight, windows_[i].steps, sizes_[i].height, sizes_[i].width)
                    : 0;
      cost.scratch = std::max(cost.scratch, scratch);
      // a library's layer goes back from gradients that ReLU has masked by itself
      cost.passing = std::max(cost.passing, out * (scratch > 0 ? 1 : 2) + (first ? 0 : in));
    }
    for (const auto& layer : dense_) {
      cost.widest = std::max(cost.widest, layer.weight.numel());
      cost.returned = std::max(cost.returned, layer.weight.size(1));
    }
    return cost;
  }

  // planned at 84 pixels a side, PPO takes 58 times as long as with such strides
  std::string note() const override {
    constexpr int64_t kDear = 100'000'000;
    const int64_t work = cost().multiply_adds;
    if (!every_pixel_ || work < kDear) return "";
    return "network.cnn looks at every pixel of " + std::to_string(sizes_[0].height) + " x " +
           std::to_string(sizes_[0].width) + ", which is " + std::to_string(work / 1'000'000) +
           " million multiply-adds a row and trunk: network.cnn.kernels=[8,4,3] with "
           "network.cnn.strides=[4,2,1], for three layers of channels, is what pictures are mostly "
           "seen with, and takes a small part of that";
  }

  bool rounds_weights() const override { return low_; }

  void round_weights() override {
    if (!low_) return;
    at::NoGradGuard no_grad;
    // cuDNN wants weights as images lie
    const auto round = [this](at::Tensor& low, const at::Tensor& weight) {
      if (!low.defined() || low.device() != weight.device())
        low = at::empty(weight.sizes(), weight.options()
                                            .dtype(at::kBFloat16)
                                            .memory_format(on_cuda_ && weight.dim() == 4
                                                               ? at::MemoryFormat::ChannelsLast
                                                               : at::MemoryFormat::Contiguous));
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
  at::Tensor in(const at::Tensor& weight) const { return low_ ? weight.to(at::kBFloat16) : weight; }

  at::Tensor convolved(const at::Tensor& x, const LayerWeights& layer, const Window& window) const {
    if (fused_) return conv_relu(x, layer, window.steps, winograd_);
    const auto [stride, padding] = window.steps;
    return activate(at::conv2d(x, in(layer.weight), in(layer.bias), stride, padding),
                    nonlinearity_);
  }

  at::Tensor connected(const at::Tensor& x, const LayerWeights& layer) const {
    if (fused_) return linear_relu(x, layer);
    return activate(linear(x, in(layer.weight), in(layer.bias)), nonlinearity_);
  }

  Nonlinearity nonlinearity_;
  bool fused_, winograd_, low_, on_cuda_;  ///< low_: bf16
  bool every_pixel_;                       ///< all strides are 1
  int64_t features_;
  std::vector<Window> windows_;
  std::vector<Size> sizes_;  ///< of the image, and behind each convolution
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
              return std::make_shared<ConvTrunk>(shape, options, context, init);
            };
            return std::make_shared<TrunkNetwork>(context.spec, options, init, trunk);
          }};
}

}  // namespace maglev::networks::cnn
