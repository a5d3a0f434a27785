#include "algos/dreamer/observation.h"

#include <string>

#include <ATen/ATen.h>

#include "kernels/image_towers/image_towers_op.h"

namespace maglev::dreamer {
namespace {

// of a tower, stage by stage
std::vector<at::Tensor> tower_parameters(
    const std::vector<std::shared_ptr<Convolution>>& convolutions,
    const std::vector<std::shared_ptr<NormSilu>>& norms) {
  std::vector<at::Tensor> all;
  const auto add = [&](const torch::nn::Module& module) {
    for (const auto& p : module.parameters()) all.push_back(p);
  };
  for (size_t i = 0; i < convolutions.size(); ++i) {
    add(*convolutions[i]);
    if (i < norms.size()) add(*norms[i]);
  }
  return all;
}

bool kernels_take(bool fused, const at::Tensor& image, const at::Tensor& parameter) {
  return fused && image.is_cpu() && image.scalar_type() == at::kByte &&
         parameter.scalar_type() == at::kFloat;
}

at::Tensor squared_errors(const at::Tensor& made, const at::Tensor& target) {
  return (made - target).square().flatten(1).sum(1);
}
at::Tensor vector_errors(const at::Tensor& made, const at::Tensor& seen) {
  return squared_errors(made, symlog(seen.to(made.dtype())));
}

}  // namespace

Observation Observation::rows() const {
  const auto flat = [](const at::Tensor& x) { return x.defined() ? x.flatten(0, 1) : x; };
  return {flat(image), flat(vector)};
}

at::Tensor symlog(const at::Tensor& x) { return at::sign(x) * at::log1p(x.abs()); }
at::Tensor symexp(const at::Tensor& x) { return at::sign(x) * at::expm1(x.abs()); }

Encoder::Encoder(const ModelShape& s, Initializer& init) : fused_images_(s.fused_images) {
  int64_t channels = s.channels;
  for (int64_t i = 0; s.channels > 0 && i < s.stages(); ++i) {
    const std::string stage = std::to_string(i);
    convolutions_.push_back(register_module(
        "convolution" + stage, std::make_shared<Convolution>(channels, s.stage_channels(i), init)));
    channels = s.stage_channels(i);
    norms_.push_back(register_module("norm" + stage, std::make_shared<NormSilu>(channels, init)));
  }
  if (s.vector > 0)
    vector_ = register_module("vector", std::make_shared<Mlp>(s.vector, kLayers, s.units, init));
}

at::Tensor Encoder::forward(const Observation& seen, Precision products) const {
  std::vector<at::Tensor> tokens;
  const auto type = parameters().front().options();
  if (vector_) tokens.push_back(vector_->forward(symlog(seen.vector.to(type.dtype()))));
  if (!convolutions_.empty()) {
    const auto weights = tower_parameters(convolutions_, norms_);
    const bool fused = kernels_take(fused_images_, seen.image, weights[0]);
    tokens.push_back(fused ? image_encoder(seen.image, weights, products)
                           : image_encoder_reference(seen.image, weights, products));
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
    for (int64_t i = s.stages() - 1; i >= 0; --i) {
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

at::Tensor Decoder::small_image(const Latent& latent) const {
  const int64_t N = latent.deter.size(0), g = shape_.blocks;
  const int64_t h = shape_.small_height(), w = shape_.small_width(), c = shape_.small_channels();
  const auto by_deter = from_deter_->forward(latent.deter.view({N, g, -1}))
                            .reshape({N, g, h, w, c / g})
                            .permute({0, 2, 3, 1, 4})
                            .reshape({N, h, w, c});
  const auto by_stoch =
      from_stoch_out_->forward(from_stoch_->forward(latent.stoch)).view({N, h, w, c});
  return norm_->forward(by_deter + by_stoch);
}

Reconstruction Decoder::forward(const Latent& latent, Precision products) const {
  Reconstruction made{.logits = {}, .vector = {}, .error = shape_.image_error()};
  if (from_deter_)
    made.logits = image_decoder_reference(small_image(latent), {shape_.height, shape_.width},
                                          tower_parameters(convolutions_, norms_), products);
  if (vector_) made.vector = vector_->forward(latent.feature());
  return made;
}

at::Tensor Decoder::loss(const Latent& latent, const Observation& seen, Precision products) const {
  if (!from_deter_) return reconstruction_loss(forward(latent), seen);
  const auto weights = tower_parameters(convolutions_, norms_);
  if (!kernels_take(shape_.fused_images, seen.image, weights[0]))
    return reconstruction_loss(forward(latent, products), seen);
  const auto loss =
      image_decoder_loss(small_image(latent), seen.image, weights, products, shape_.image_error());
  if (!vector_) return loss;
  return loss + vector_errors(vector_->forward(latent.feature()), seen.vector);
}

at::Tensor reconstruction_loss(const Reconstruction& made, const Observation& seen) {
  at::Tensor loss;
  const auto add = [&](const at::Tensor& sum) { loss = loss.defined() ? loss + sum : sum; };
  if (made.logits.defined()) add(image_errors(made.logits, seen.image, made.error));
  if (made.vector.defined()) add(vector_errors(made.vector, seen.vector));
  return loss;
}

at::Tensor redundancy_loss(const at::Tensor& projected, const at::Tensor& token,
                           double off_diagonal, const at::Tensor& weight) {
  // a number that is the same in all rows correlates with nothing
  constexpr double kLeastVariance = 1e-8;
  const auto counted = [&](const at::Tensor& x) {
    return weight.defined() ? weight.unsqueeze(1) * x : x;
  };
  const auto standardised = [&](const at::Tensor& x) {
    const auto centred = x - counted(x).mean(0);
    return centred * at::rsqrt(counted(centred.square()).mean(0) + kLeastVariance);
  };
  const auto correlation =
      at::mm(counted(standardised(projected)).t(), standardised(token.detach())) /
      double(token.size(0));
  const auto diagonal = correlation.diagonal();
  const auto others = correlation.square().sum() - diagonal.square().sum();
  return (diagonal - 1).square().sum() + off_diagonal * others;
}

}  // namespace maglev::dreamer
