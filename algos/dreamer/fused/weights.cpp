#include "algos/dreamer/fused/weights.h"

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev::dreamer {

Weight weight_of(const torch::nn::Module& module, const std::string& name) {
  const auto parameters = module.named_parameters();
  const at::Tensor* found = parameters.find(name);
  MAGLEV_ASSERT(found, "a parameter of this name");
  return {found->detach(), found->grad()};
}

DenseWeights dense_of(const torch::nn::Module& module, const std::string& name) {
  const Weight weight = weight_of(module, name + ".weight"),
               bias = weight_of(module, name + ".bias");
  return {weight.value, bias.value, weight.gradient, bias.gradient, weight.value.t()};
}

NormWeights norm_of(const torch::nn::Module& module, const std::string& name) {
  const Weight scale = weight_of(module, name + ".scale");
  return {scale.value, scale.gradient};
}

void add_rows(at::Tensor& sum, const at::Tensor& rows, const at::Tensor& ones) {
  at::addmv_out(sum, sum, rows.t(), ones.narrow(0, 0, rows.size(0)));
}

void DenseWeights::add_gradients(const at::Tensor& d_product, const at::Tensor& x,
                                 const at::Tensor& ones) {
  at::addmm_out(d_weight, d_weight, d_product.t(), x);
  add_rows(d_bias, d_product, ones);
}

}  // namespace maglev::dreamer
