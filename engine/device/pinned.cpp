#include "engine/device/pinned.h"

#include <exception>

#include <ATen/ATen.h>

#include "engine/device/device.h"

namespace maglev {

at::Tensor pinned_on(at::Device device, at::IntArrayRef sizes, at::ScalarType dtype) {
  const auto options = at::TensorOptions(dtype);
  at::Tensor host = at::zeros(sizes, options.pinned_memory(true));
  void* data = host.data_ptr();
  // one address for host and device (CUDA C++ programming guide, "Unified virtual addressing")
  return at::for_blob(data, sizes)
      .deleter([host](void*) {
        // what was enqueued may still read or write there; an error then belongs to whoever
        // enqueued it
        try {
          wait_for_stream();
        } catch (const std::exception&) {
        }
      })
      .target_device(device)
      .options(options.device(device))
      .make_tensor();
}

}  // namespace maglev
