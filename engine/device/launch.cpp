#include "engine/device/launch.h"

#include "base/core/error.h"
#include "base/device/dependent_launch.h"

namespace maglev {
namespace {

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace

bool has_dependent_launch(at::Device device) {
  return device.is_cuda() && compute_capability(device.index()) >= kDependentLaunchCapability;
}

DependentLaunch::DependentLaunch(bool on, [[maybe_unused]] at::Device device) {
  if (on && device.is_cuda() && !has_dependent_launch(device))
    throw Error("[train.dependent_launch] needs a GPU of capability " +
                capability_text(kDependentLaunchCapability) + " or later, got " + device.str() +
                " of " + capability_text(compute_capability(device.index())) + "; leave it off");
#ifdef MAGLEV_DEVICE_CODE
  if (on && device.is_cuda() && !has_dependent_code())
    throw Error("[train.dependent_launch] this build has no code for GPUs of capability " +
                capability_text(kDependentLaunchCapability) +
                ": leave it off, or build with -DMAGLEV_CUDA_ARCHITECTURES=90 or later");
  before_ = dependent_launch().exchange(on && device.is_cuda());
#endif
}

DependentLaunch::~DependentLaunch() {
#ifdef MAGLEV_DEVICE_CODE
  dependent_launch() = before_;
#endif
}

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
