#include "algos/dreamer/fused/weights.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "kernels/products/products_op.h"

namespace maglev::dreamer {

WeightRows::WeightRows(Precision precision, at::Device device)
    : precision_(precision),
      factors_(precision == Precision::bf16 && device.is_cuda() ? std::make_unique<RoundedFactors>()
                                                                : nullptr) {}

at::Tensor WeightRows::of(const at::Tensor& weight) {
  for (const Copy& c : copies_)
    if (c.from.data_ptr() == weight.data_ptr() && c.from.sizes() == weight.sizes() &&
        c.from.strides() == weight.strides())
      return c.to;
  copies_.push_back({weight, aligned_rows(weight)});
  if (factors_) {
    // all weights of a buffer at once
    const at::Tensor all = factors_->keep(weight);
    const auto there = [&](const at::Tensor& other) { return other.is_alias_of(all); };
    if (std::none_of(rounded_.begin(), rounded_.end(), there)) rounded_.push_back(all);
  }
  return copies_.back().to;
}

void WeightRows::copy() {
  for (Copy& c : copies_)
    if (!c.to.is_same(c.from)) c.to.copy_(c.from);
  for (const at::Tensor& all : rounded_) factors_->round(all);
}

void WeightRows::share(const at::Tensor& buffer) {
  if (factors_) factors_->keep(buffer);
}

void round_shared(const at::Tensor& written, const ProductPrecision& products) {
  if (products.factors) products.factors->round(written);
}

Weight weight_of(const torch::nn::Module& module, const std::string& name) {
  const auto parameters = module.named_parameters();
  const at::Tensor* found = parameters.find(name);
  MAGLEV_ASSERT(found, "a parameter of this name");
  return {found->detach(), found->grad()};
}

DenseWeights dense_of(const torch::nn::Module& module, const std::string& name, WeightRows& rows) {
  const Weight weight = weight_of(module, name + ".weight"),
               bias = weight_of(module, name + ".bias");
  return {.weight = weight.value,
          .bias = bias.value,
          .d_weight = weight.gradient,
          .d_bias = bias.gradient,
          .forward = rows.of(weight.value.t()),
          .back = rows.of(weight.value),
          .products = rows.products()};
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
  add_product(d_weight, d_product.t(), x, products);
  add_rows(d_bias, d_product, ones);
}

}  // namespace maglev::dreamer
