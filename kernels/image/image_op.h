#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// bytes [..] u8 times `scale`, as `dtype` (f32 or bf16, rounded to nearest even), contiguous, on
/// the same device.
at::Tensor scale_image(const at::Tensor& bytes, double scale, at::ScalarType dtype = at::kFloat);

}  // namespace maglev
