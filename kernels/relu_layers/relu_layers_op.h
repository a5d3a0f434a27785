#pragma once
// Layers of convolutional networks with their ReLU inside, forward and backward: oneDNN primitives,
// which reach this kind of processor's peak where ATen's own way to them does not, and convolutions
// of our own where they take fewer multiplications or fill vectors better. On a CUDA device
// (device_layers_op.h) products are cuDNN's and cuBLAS's: a convolution's bias and ReLU by
// relu_rows, a dense layer's in cuBLAS's product; back through both by relu_rows.

#include <ATen/core/Tensor.h>

namespace maglev {

/// A layer's parameters. Gradients go to the f32 ones, whatever the layer computes in.
struct LayerWeights {
  at::Tensor weight, bias;          ///< f32; [O, C, K, K] or [O, F], and [O]
  at::Tensor weight_low, bias_low;  ///< bf16 copies; undefined where nothing computes in bf16
};

/// How a convolution's window moves over images.
struct ConvSteps {
  int64_t stride = 1, padding = 1;

  /// Places of a side, for a window of so many pixels; 0: none.
  int64_t places(int64_t side, int64_t kernel) const {
    const int64_t free = side + 2 * padding - kernel;
    return free < 0 ? 0 : free / stride + 1;
  }
};

/// relu of a convolution. x [B, C, H, W], channels-last; bf16 computes with the bf16 copies and sums
/// in f32. Returns [B, O, places of H, places of W] of x's dtype, channels-last. 3x3 layers of
/// stride 1 that suit are computed in tiles (winograd_op.h) unless `winograd` is off; of the others
/// a first one of up to 16 outputs with padding 1 has its images in lanes (conv_lanes.h). On a CPU
/// an image's result does not depend on the images around it, from 16 on.
at::Tensor conv_relu(const at::Tensor& x, const LayerWeights& layer, ConvSteps steps = {},
                     bool winograd = true);

/// Numbers that conv_relu works in on a thread where it computes such a layer in tiles, there and
/// back, however many images there are; 0: not in tiles. weight [O, C, K, K], f32 on a processor.
int64_t winograd_scratch(const at::Tensor& weight, ConvSteps steps, int64_t height, int64_t width);

/// relu(x weight^T + bias). x [B, F] f32 or bf16, as above; returns [B, O] of x's dtype. On a CPU a
/// row's result does not depend on the rows around it, from two rows on.
at::Tensor linear_relu(const at::Tensor& x, const LayerWeights& layer);
/// The same without relu.
at::Tensor linear_alone(const at::Tensor& x, const LayerWeights& layer);

/// x weight^T, without gradients, for operations that have their own. x [B, F] and weight [O, F],
/// f32 or bf16 both, any strides.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight);

}  // namespace maglev
