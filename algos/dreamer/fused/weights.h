#pragma once
// Weights of a module's layers by their names, beside the gradient buffers of one lane.

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/device/precision.h"

namespace maglev::dreamer {

/// Weights in rows that products read where they lie: copied once an update, read by all shards. On
/// CUDA they are the weights themselves. They know in which numbers they are multiplied.
class WeightRows {
 public:
  explicit WeightRows(Precision precision) : precision_(precision) {}
  Precision precision() const { return precision_; }

  /// What copy() fills with `weight`, any view of parameters; the same for the same view.
  at::Tensor of(const at::Tensor& weight);
  void copy();

 private:
  struct Copy {
    at::Tensor from, to;
  };
  Precision precision_;
  std::vector<Copy> copies_;
};

/// Of a layer by itself: what it multiplies by, and where gradients of that are added.
struct DenseWeights {
  at::Tensor weight, bias, d_weight, d_bias;
  at::Tensor forward, back;  ///< WeightRows of [in, out] and [out, in]
  Precision precision;       ///< of products with them

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
DenseWeights dense_of(const torch::nn::Module& module, const std::string& name, WeightRows& rows);
NormWeights norm_of(const torch::nn::Module& module, const std::string& name);

/// Adds the sum over rows [R, n] to sum [n], `ones` being [R] or more of them.
void add_rows(at::Tensor& sum, const at::Tensor& rows, const at::Tensor& ones);

}  // namespace maglev::dreamer
