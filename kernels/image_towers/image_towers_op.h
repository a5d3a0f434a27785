#pragma once
// Image encoders and decoders of Dreamer V3 on tensors (image_towers.h): fused on a processor,
// ATen's operations elsewhere.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/device/precision.h"
#include "kernels/image_towers/image_towers.h"

namespace maglev {

/// Tokens [N, token] f32 of images [N, H, W, C] u8 of any size (filled_side). `parameters`: of each
/// stage weight [out, in, 5, 5], bias [out] and the norm's scale [out]. Differentiable in these.
/// Channels of a token come last: [h, w, c] in this order. Throws Error where a shape does not fit.
/// `products`: bf16 rounds the factors of convolutions and of their gradients where there are tiles
/// (base/simd/tiles.h) and gradients will be asked for, and on CUDA, where what a convolution gives
/// is bf16 too, without its bias; all else is fp32: other processors, the references there, and on
/// a processor whatever runs without gradients.
at::Tensor image_encoder(const at::Tensor& images, const std::vector<at::Tensor>& parameters,
                         Precision products = Precision::fp32);
at::Tensor image_encoder_reference(const at::Tensor& images,
                                   const std::vector<at::Tensor>& parameters,
                                   Precision products = Precision::fp32);

/// Errors [N] f32 of what a decoder makes of x [N, h, w, c] f32, against images [N, H, W, C] u8 /
/// 255, summed over pixels and channels. `parameters` as above, from the smallest image on; the
/// last stage has no scale. Differentiable in x and the parameters. `products` as above.
at::Tensor image_decoder_loss(const at::Tensor& x, const at::Tensor& images,
                              const std::vector<at::Tensor>& parameters,
                              Precision products = Precision::fp32,
                              ImageError error = ImageError::squared);
/// What it makes of an image of these sides: logits [N, H, W, C], of which the sigmoid is meant.
at::Tensor image_decoder_reference(const at::Tensor& x, at::IntArrayRef sides,
                                   const std::vector<at::Tensor>& parameters,
                                   Precision products = Precision::fp32);
at::Tensor image_decoder_loss_reference(const at::Tensor& x, const at::Tensor& images,
                                        const std::vector<at::Tensor>& parameters,
                                        Precision products = Precision::fp32,
                                        ImageError error = ImageError::squared);
/// The same of logits [N, H, W, C] and images [N, H, W, C] u8, or f32 from 0 to 255: [N].
at::Tensor image_errors(const at::Tensor& logits, const at::Tensor& images, ImageError error);

}  // namespace maglev
