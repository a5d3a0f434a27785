#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/relu_layers/winograd.h"

namespace maglev {

/// Whether winograd_conv_relu computes such a layer, and pays: channels and outputs are multiples of
/// 16 and not so many that their 36 products of matrices are read from memory, and tiles do not lie
/// outside of the image for the most part. Of how many images is not asked, so that few and many are
/// computed alike. Images are f32 on a processor.
bool suits_winograd(const Winograd& layer);
/// Numbers it works in on a thread, there and back, whatever the images.
int64_t winograd_scratch(const Winograd& layer);

/// relu of a 3x3 convolution with `padding` 0 to 2 (winograd.h). x [B, C, H, W], weight [O, C, 3, 3],
/// bias [O], f32; returns [B, O, H + 2 padding - 2, W + 2 padding - 2], channels-last. With
/// gradients, where they are asked for.
at::Tensor winograd_conv_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              int64_t padding = 1);

}  // namespace maglev
