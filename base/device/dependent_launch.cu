#include "base/device/dependent_launch.h"
#include "base/device/launch.cuh"

namespace maglev {
namespace {

__global__ void only_wait() { wait_for_earlier(); }

}  // namespace

std::atomic<bool>& dependent_launch() {
  static std::atomic<bool> is_on = false;
  return is_on;
}

bool has_dependent_code() {
  cudaFuncAttributes built{};
  return cudaFuncGetAttributes(&built, only_wait) == cudaSuccess &&
         built.ptxVersion >= kDependentLaunchCapability;
}

}  // namespace maglev
