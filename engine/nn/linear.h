#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// x [B, F] f32 times weight [O, F], plus bias [O] -> [B, O]. A row's result does not depend on the
/// row's place, for B a multiple of 8: one output alone would go to a matrix-vector product, which
/// rounds rows by where they stand.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace maglev
