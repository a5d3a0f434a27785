#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// Zeros in pinned memory of the host, as a tensor of a CUDA `device`, whose kernels read and write
/// it over the bus: for what the device's own memory does not hold. The host may read it once the
/// stream has been waited for.
at::Tensor pinned_on(at::Device device, at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace maglev
