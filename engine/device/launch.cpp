#include "engine/device/launch.h"

#include "base/core/error.h"

namespace maglev {

void refuse_device(const char* kernel, at::Device device) {
  const std::string where = "[" + std::string(kernel) + "] ";
  if (device.is_cuda())
    throw Error(where + "has tensors on " + device.str() +
                ", and this build has no device code; use device=cpu, or build where torch has "
                "CUDA and nvcc is there");
  throw Error(where + "runs on cpu and cuda, got tensors on " + device.str() +
              "; move them to one of these");
}

void refuse_devices(const char* kernel, at::Device one, at::Device other) {
  throw Error("[" + std::string(kernel) + "] needs its tensors on one device, got some on " +
              one.str() + " and some on " + other.str() + "; move them to one");
}

}  // namespace maglev
