#pragma once
// Weights of a module's layers by their names, beside the gradient buffers of one lane.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "kernels/products/products_op.h"

namespace maglev::dreamer {

/// Weights in rows that products read where they lie: copied once an update, read by all shards. On
/// CUDA they are the weights themselves, and in Precision::bf16 a rounded copy is kept beside them.
/// They know in which numbers they are multiplied.
class WeightRows {
 public:
  WeightRows(Precision precision, at::Device device);
  /// Valid as long as this, wherever it is moved.
  ProductPrecision products() const { return {precision_, factors_.get()}; }

  /// What copy() fills with `weight`, any view of parameters; the same for the same view.
  at::Tensor of(const at::Tensor& weight);
  void copy();

  /// From now on products on a device read rows of `buffer`, which several of them do, as
  /// round_shared() left them.
  void share(const at::Tensor& buffer);

 private:
  struct Copy {
    at::Tensor from, to;
  };
  Precision precision_;
  std::unique_ptr<RoundedFactors> factors_;  ///< in Precision::bf16 on a device
  std::vector<at::Tensor> rounded_;          ///< weights kept there, flat
  std::vector<Copy> copies_;
};

/// Rounds what was written of a buffer that was shared (WeightRows::share); else nothing.
void round_shared(const at::Tensor& written, const ProductPrecision& products);

/// Of a layer by itself: what it multiplies by, and where gradients of that are added.
struct DenseWeights {
  at::Tensor weight, bias, d_weight, d_bias;
  at::Tensor forward, back;   ///< WeightRows of [in, out] and [out, in]
  ProductPrecision products;  ///< with them

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
