#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// tanh in place, with gradients; x f32, dense in memory in any order, on any device (on CUDA it is
/// ATen's own). Returns x.
at::Tensor fast_tanh_(at::Tensor x);

}  // namespace maglev
