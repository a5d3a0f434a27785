#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// x [B, F] times weight [O, F], plus bias [O] -> [B, O]. In f32 on a processor layers of at most
/// 16 outputs are by kernels/products. There one output alone, a value, is summed in f32 also where
/// autocast would round its products. First derivatives only.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace maglev
