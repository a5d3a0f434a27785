#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// bytes [..] u8 times `scale`, as `dtype` (f32 or bf16, rounded to nearest even), contiguous, on
/// the same device.
at::Tensor scale_image(const at::Tensor& bytes, double scale, at::ScalarType dtype = at::kFloat);

/// Images [N, H, W, C] u8 moved by their `uniforms` [N, 2] f32 in [0, 1], at most `pad` pixels in
/// both directions, as [N, C, H, W] f32 in [-0.5, 0.5] whose channels lie last in memory.
at::Tensor shift_images(const at::Tensor& bytes, const at::Tensor& uniforms, int64_t pad);

}  // namespace maglev
