#pragma once
#include <ATen/core/Tensor.h>

#include "engine/device/precision.h"
#include "kernels/products/rounded_factors_op.h"

namespace maglev {

/// In which numbers products are, and where a device rounds their factors in Precision::bf16: not
/// null there.
struct ProductPrecision {
  ProductPrecision(Precision precision = Precision::fp32, RoundedFactors* factors = nullptr)
      : precision(precision), factors(factors) {}

  Precision precision;
  RoundedFactors* factors;
};

/// Whether products on `device` can be in Precision::bf16: a processor that multiplies pairs
/// (pair_products_available()), CUDA.
bool products_in_bf16(at::Device device);

/// c = a b, and c += a b: a [rows, depth], b [depth, columns], c [rows, columns], or the same
/// behind a first dimension of batches; f32 on one device. Elements of a may lie anyhow; those of a
/// row of b and of c lie together, any distance apart from the next. On a processor the kernel,
/// fastest where rows of b begin at 64 bytes; on CUDA ATen's product. No operand overlaps c.
/// Graph-safe. On a processor a row's result does not depend on other rows. In Precision::bf16, for
/// a device with products_in_bf16(), a and b of products for which that pays are rounded, to
/// nearest even; sums and c are f32, and they are finite.
void write_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                   const ProductPrecision& in = {});
void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                 const ProductPrecision& in = {});

/// An uninitialised matrix of `like`'s sizes whose rows begin at 64 bytes, as few-row products want
/// b; on CUDA, where nothing asks for it, `like` itself.
at::Tensor aligned_rows(const at::Tensor& like);

}  // namespace maglev
