#pragma once
// Weights of a module's layers by their names, beside the gradient buffers of one lane.

#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace maglev::dreamer {

/// Of a layer by itself: what it multiplies by, and where gradients of that are added.
struct DenseWeights {
  at::Tensor weight, bias, d_weight, d_bias;
  at::Tensor transposed;  ///< weight as a product wants it

  /// Adds the gradients by those of the products [R, out], of inputs x [R, in].
  void add_gradients(const at::Tensor& d_product, const at::Tensor& x, const at::Tensor& ones);
};
struct NormWeights {
  at::Tensor scale, d_scale;
};

/// Those of parameter `name` of a module that FlatParams::bind gave gradients: itself, and those.
struct Weight {
  at::Tensor value, gradient;
};
Weight weight_of(const torch::nn::Module& module, const std::string& name);
DenseWeights dense_of(const torch::nn::Module& module, const std::string& name);
NormWeights norm_of(const torch::nn::Module& module, const std::string& name);

/// Adds the sum over rows [R, n] to sum [n], `ones` being [R] or more of them.
void add_rows(at::Tensor& sum, const at::Tensor& rows, const at::Tensor& ones);

}  // namespace maglev::dreamer
