#include "algos/dreamer/observation.h"

#include <string>

#include <ATen/ATen.h>

namespace maglev::dreamer {
namespace {

// [N, H, W, C] in the memory of [N, C, H, W]
at::Tensor channels_first(const at::Tensor& image) { return image.permute({0, 3, 1, 2}); }
at::Tensor channels_last(const at::Tensor& image) { return image.permute({0, 2, 3, 1}); }

}  // namespace

Observation Observation::rows() const {
  const auto flat = [](const at::Tensor& x) { return x.defined() ? x.flatten(0, 1) : x; };
  return {flat(image), flat(vector)};
}

at::Tensor symlog(const at::Tensor& x) { return at::sign(x) * at::log1p(x.abs()); }
at::Tensor symexp(const at::Tensor& x) { return at::sign(x) * at::expm1(x.abs()); }

Encoder::Encoder(const ModelShape& s, Initializer& init) {
  int64_t channels = s.channels;
  for (int64_t i = 0; s.channels > 0 && i < kStages; ++i) {
    const std::string stage = std::to_string(i);
    convolutions_.push_back(register_module(
        "convolution" + stage, std::make_shared<Convolution>(channels, s.stage_channels(i), init)));
    channels = s.stage_channels(i);
    norms_.push_back(register_module("norm" + stage, std::make_shared<NormSilu>(channels, init)));
  }
  if (s.vector > 0)
    vector_ = register_module("vector", std::make_shared<Mlp>(s.vector, kLayers, s.units, init));
}

at::Tensor Encoder::forward(const Observation& seen) const {
  std::vector<at::Tensor> tokens;
  const auto type = parameters().front().options();
  if (vector_) tokens.push_back(vector_->forward(symlog(seen.vector.to(type.dtype()))));
  if (!convolutions_.empty()) {
    auto x = channels_first(seen.image.to(type.dtype()) / 255 - 0.5);
    for (size_t i = 0; i < convolutions_.size(); ++i)
      x = norms_[i]->over_channels(at::max_pool2d(convolutions_[i]->forward(x), {2, 2}));
    tokens.push_back(channels_last(x).flatten(1));
  }
  return at::cat(tokens, 1);
}

Decoder::Decoder(const ModelShape& s, Initializer& init) : shape_(s) {
  if (s.channels > 0) {
    // both states make the smallest image, h in blocks of its channels
    from_deter_ = register_module(
        "from_deter", std::make_shared<BlockDense>(s.deter, s.image_token(), s.blocks, init));
    from_stoch_ =
        register_module("from_stoch", std::make_shared<Mlp>(s.flat_stoch(), 1, 2 * s.units, init));
    from_stoch_out_ = register_module("from_stoch_out",
                                      std::make_shared<Dense>(2 * s.units, s.image_token(), init));
    norm_ = register_module("norm", std::make_shared<NormSilu>(s.small_channels(), init));
    int64_t channels = s.small_channels();
    for (int64_t i = kStages - 1; i >= 0; --i) {
      // the way of the encoder back, and the last one to the image's own channels
      const int64_t out = i == 0 ? s.channels : s.stage_channels(i - 1);
      const std::string stage = std::to_string(i);
      convolutions_.push_back(register_module("convolution" + stage,
                                              std::make_shared<Convolution>(channels, out, init)));
      if (i > 0)
        norms_.push_back(register_module("norm" + stage, std::make_shared<NormSilu>(out, init)));
      channels = out;
    }
  }
  if (s.vector > 0) {
    const HeadShape head{
        .in = s.feature(), .layers = kLayers, .units = s.units, .out = s.vector, .scale = 1};
    vector_ = register_module("vector", std::make_shared<Head>(head, init));
  }
}

at::Tensor Decoder::image(const Latent& latent) const {
  const int64_t N = latent.deter.size(0), g = shape_.blocks;
  const int64_t h = shape_.small_height(), w = shape_.small_width(), c = shape_.small_channels();
  const auto by_deter = from_deter_->forward(latent.deter.view({N, g, -1}))
                            .reshape({N, g, h, w, c / g})
                            .permute({0, 2, 3, 1, 4})
                            .reshape({N, h, w, c});
  const auto by_stoch =
      from_stoch_out_->forward(from_stoch_->forward(latent.stoch)).view({N, h, w, c});
  auto x = channels_first(norm_->forward(by_deter + by_stoch));
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    const int64_t height = 2 * x.size(2), width = 2 * x.size(3);
    x = convolutions_[i]->forward(at::upsample_nearest2d(x, {height, width}));
    if (i < norms_.size()) x = norms_[i]->over_channels(x);
  }
  return channels_last(at::sigmoid(x));
}

Reconstruction Decoder::forward(const Latent& latent) const {
  Reconstruction made;
  if (from_deter_) made.image = image(latent);
  if (vector_) made.vector = vector_->forward(latent.feature());
  return made;
}

at::Tensor reconstruction_loss(const Reconstruction& made, const Observation& seen) {
  at::Tensor loss;
  const auto add = [&](const at::Tensor& squares) {
    const auto sum = squares.flatten(1).sum(1);
    loss = loss.defined() ? loss + sum : sum;
  };
  if (made.image.defined()) add((made.image - seen.image.to(made.image.dtype()) / 255).square());
  if (made.vector.defined())
    add((made.vector - symlog(seen.vector.to(made.vector.dtype()))).square());
  return loss;
}

at::Tensor redundancy_loss(const at::Tensor& projected, const at::Tensor& token,
                           double off_diagonal) {
  // a number that is the same in all rows correlates with nothing
  constexpr double kLeastVariance = 1e-8;
  const auto standardised = [](const at::Tensor& x) {
    const auto centred = x - x.mean(0);
    return centred * at::rsqrt(centred.square().mean(0) + kLeastVariance);
  };
  const auto correlation =
      at::mm(standardised(projected).t(), standardised(token.detach())) / double(token.size(0));
  const auto diagonal = correlation.diagonal();
  const auto others = correlation.square().sum() - diagonal.square().sum();
  return (diagonal - 1).square().sum() + off_diagonal * others;
}

}  // namespace maglev::dreamer
