#pragma once
// The layers of relu_layers_op.h on a CUDA device, products by cuDNN and cuBLAS: a convolution's
// bias and ReLU by relu_rows, a dense layer's in cuBLAS's product; back through both by relu_rows.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/relu_layers/relu_layers_op.h"

namespace maglev {

/// What a layer computes with, of its inputs' dtype.
struct UsedWeights {
  at::Tensor weight, bias;
  ConvSteps steps = {};  ///< a convolution's
};

/// Whether autograd will ask for gradients of a layer of these inputs.
bool wants_gradients(const at::Tensor& x, const LayerWeights& layer);

/// A convolution's steps from forward to backward.
void keep_steps(torch::autograd::AutogradContext* context, ConvSteps steps);
ConvSteps kept_steps(torch::autograd::AutogradContext* context);

/// Whether layers of so many outputs go this way for inputs `x`: f32, or bf16, on a CUDA device.
/// Where autocast would change x's dtype ATen's own layers are left to it.
bool suits_device_layers(const at::Tensor& x, int64_t outputs);

/// As conv_relu and linear_relu, of what suits. x is channels-last, or rows.
at::Tensor device_conv_relu(const at::Tensor& x, const LayerWeights& layer,
                            const UsedWeights& with);
at::Tensor device_linear_relu(const at::Tensor& x, const LayerWeights& layer,
                              const UsedWeights& with);

}  // namespace maglev
