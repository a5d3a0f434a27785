#include "engine/device/device.h"

#include <cstring>
#include <string>

#include "base/core/error.h"
#ifdef MAGLEV_DEVICE_CODE
#include <c10/cuda/CUDAStream.h>

#include <cuda_runtime.h>
#endif

namespace maglev {

#ifdef MAGLEV_DEVICE_CODE
void use_device(int index) { check_cuda(cudaSetDevice(index), "device"); }

void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

int compute_capability(int index) {
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "device");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), "device");
  return 10 * major + minor;
}

int64_t free_device_bytes() {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "device");
  return int64_t(free);
}

void copy_on_stream(void* to, const void* from, int64_t bytes) {
  check_cuda(
      cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDefault, cudaStream_t(current_stream())),
      "copy");
}

void wait_for_stream() {
  check_cuda(cudaStreamSynchronize(cudaStream_t(current_stream())), "copy");
}

void check_cuda(int error, const char* what) {
  if (error != 0)
    throw Error("[" + std::string(what) + "] the device refused the launch: " +
                cudaGetErrorString(static_cast<cudaError_t>(error)));
}
#else
void use_device(int) {}

void* current_stream() { return nullptr; }

int compute_capability(int) { return 0; }

int64_t free_device_bytes() { return 0; }

void copy_on_stream(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, size_t(bytes));
}

void wait_for_stream() {}

void check_cuda(int error, const char* what) { MAGLEV_ASSERT(error == 0, what); }
#endif

}  // namespace maglev
