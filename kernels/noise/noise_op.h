#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/noise/noise.h"

namespace maglev {

/// Writes numbers of `fill` into out f32, contiguous, on its device: fill.rows streams, whose
/// numbers lie one row after another. `fill.count` is taken from `out`. Graph-safe.
/// Throws Error where out's size is no multiple of fill.rows.
void noise_uniform_(at::Tensor& out, NoiseFill fill);
/// The same with standard normals.
void noise_normal_(at::Tensor& out, NoiseFill fill);

}  // namespace maglev
