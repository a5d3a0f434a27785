#pragma once
// From what is seen to a token, and from the states back to what is seen.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "algos/dreamer/layers.h"
#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/rssm.h"
#include "engine/device/precision.h"
#include "kernels/image_towers/image_towers.h"

namespace maglev::dreamer {

/// What the networks see of rows. Either part may be undefined.
struct Observation {
  /// [N, H, W, C] u8; or f32 from 0 to 255, by which the encoder is differentiable.
  at::Tensor image;
  at::Tensor vector;  ///< [N, V] f32, as the environment gives it

  /// Of [T, B, ...] all rows one behind another: [T * B, ...].
  Observation rows() const;
};

/// sign(x) ln(1 + |x|).
at::Tensor symlog(const at::Tensor& x);
/// Its inverse.
at::Tensor symexp(const at::Tensor& x);

class Encoder : public torch::nn::Module {
 public:
  Encoder(const ModelShape& shape, Initializer& init);
  /// Tokens [N, E]. `products`: of images, as kernels/image_towers takes them.
  at::Tensor forward(const Observation& seen, Precision products = Precision::fp32) const;

 private:
  bool fused_images_;
  std::vector<std::shared_ptr<Convolution>> convolutions_;
  std::vector<std::shared_ptr<NormSilu>> norms_;
  std::shared_ptr<Mlp> vector_;
};

/// What the decoder makes of states. Either part may be undefined.
struct Reconstruction {
  at::Tensor logits;  ///< [N, H, W, C], of which the sigmoid is the image in (0, 1)
  at::Tensor vector;  ///< [N, V], symlog of the vector
  ImageError error = ImageError::squared;  ///< what the image's pixels are judged by
};

class Decoder : public torch::nn::Module {
 public:
  Decoder(const ModelShape& shape, Initializer& init);
  /// Of states [N, ...]. `products` as the encoder's.
  Reconstruction forward(const Latent& latent, Precision products = Precision::fp32) const;
  /// reconstruction_loss of it, without the images where kernels need none. `products` as the
  /// encoder's.
  at::Tensor loss(const Latent& latent, const Observation& seen,
                  Precision products = Precision::fp32) const;

 private:
  /// The smallest image [N, h, w, c], which convolutions make larger.
  at::Tensor small_image(const Latent& latent) const;

  ModelShape shape_;
  std::shared_ptr<BlockDense> from_deter_;
  std::shared_ptr<Mlp> from_stoch_;
  std::shared_ptr<Dense> from_stoch_out_;
  std::shared_ptr<NormSilu> norm_;
  std::vector<std::shared_ptr<Convolution>> convolutions_;
  std::vector<std::shared_ptr<NormSilu>> norms_;
  std::shared_ptr<Head> vector_;
};

/// Errors of each row [N], summed over pixels and numbers: squared ones of bytes / 255 and symlog, of
/// cells in nats.
at::Tensor reconstruction_loss(const Reconstruction& made, const Observation& seen);

/// How far the cross-correlation, over N rows, of `projected` [N, E] and `token` [N, E] is from the
/// identity, squared and summed, what is off the diagonal times `off_diagonal` (Zbontar et al.,
/// "Barlow Twins", 2021; Morihira et al., "R2-Dreamer", 2026). Tokens are what they are: no
/// gradient goes there. `weight` [N], of mean 1, says how much rows count; undefined: alike.
at::Tensor redundancy_loss(const at::Tensor& projected, const at::Tensor& token,
                           double off_diagonal, const at::Tensor& weight = {});

}  // namespace maglev::dreamer
