#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// Whether weights [O, C, 3, 3] are of a layer that winograd_conv_relu computes: O and C multiples
/// of 16. Images are f32 on a processor.
bool suits_winograd(const at::Tensor& weight);

/// relu of a 3x3 convolution with padding 1 (winograd.h). x [B, C, H, W], weight [O, C, 3, 3], bias
/// [O], f32; returns [B, O, H, W], channels-last. With gradients, where they are asked for.
at::Tensor winograd_conv_relu(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias);

}  // namespace maglev
