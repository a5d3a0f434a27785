#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/philox/philox.h"

namespace maglev {

/// Writes uniforms in (0, 1) into out [rows, width] f32, contiguous, on its device. `fill.rows` and
/// `width` are taken from `out`.
void philox_uniform_(at::Tensor& out, PhiloxFill fill);
/// The same with standard normals.
void philox_normal_(at::Tensor& out, PhiloxFill fill);

/// Writes permutation_of(key)(first + i) into out [count] i64, contiguous, on its device.
void fill_permutation(at::Tensor& out, const PermutationKey& key, int64_t first);

}  // namespace maglev
