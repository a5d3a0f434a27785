#include "engine/device/pinned.h"

#include <ATen/ATen.h>

namespace maglev {

at::Tensor pinned_on(at::Device device, at::IntArrayRef sizes, at::ScalarType dtype) {
  const auto options = at::TensorOptions(dtype);
  at::Tensor host = at::zeros(sizes, options.pinned_memory(true));
  void* data = host.data_ptr();
  // one address for host and device (CUDA C++ programming guide, "Unified virtual addressing")
  return at::for_blob(data, sizes)
      .deleter([host](void*) {})
      .target_device(device)
      .options(options.device(device))
      .make_tensor();
}

}  // namespace maglev
