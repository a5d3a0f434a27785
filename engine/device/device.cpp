#include "engine/device/device.h"

#include <cstring>
#include <string>

#include "base/core/error.h"
#ifdef MAGLEV_DEVICE_CODE
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cuda_runtime.h>
#endif

namespace maglev {

std::recursive_mutex& capture_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

#ifdef MAGLEV_DEVICE_CODE
namespace {

std::string error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace

void use_device(int index) { check_cuda(cudaSetDevice(index), "device"); }

void* current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

int compute_capability(int index) {
  int major = 0, minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "device");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), "device");
  return 10 * major + minor;
}

std::string bus_address(int index) {
  char text[32] = "";
  if (cudaDeviceGetPCIBusId(text, sizeof text, index) == cudaSuccess) return text;
  // or else the next launch would be blamed for it
  cudaGetLastError();
  return "";
}

DeviceMemory device_memory() {
  // the allocator knows no device before torch has set itself up
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  constexpr auto kAll = size_t(c10::CachingAllocator::StatType::AGGREGATE);
  return {.in_use = stats.allocated_bytes[kAll].current,
          .reserved = stats.reserved_bytes[kAll].current,
          .peak_in_use = stats.allocated_bytes[kAll].peak,
          .peak_reserved = stats.reserved_bytes[kAll].peak};
}

void reset_device_peak() {
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
}

void release_device_memory() {
  const std::lock_guard lock(capture_mutex());
  at::globalContext().lazyInitDevice(at::kCUDA);
  check_cuda(cudaDeviceSynchronize(), "device");
  c10::cuda::CUDACachingAllocator::emptyCache();
}

int64_t free_device_bytes() {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "device");
  const DeviceMemory memory = device_memory();
  return int64_t(free) + memory.reserved - memory.in_use;
}

void copy_on_stream(void* to, const void* from, int64_t bytes) {
  check_cuda(
      cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDefault, cudaStream_t(current_stream())),
      "copy");
}

bool stream_is_captured() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(cudaStream_t(current_stream()), &status), "device");
  // also where what was captured cannot be used any more
  return status != cudaStreamCaptureStatusNone;
}

void wait_for_stream() {
  check_cuda(cudaStreamSynchronize(cudaStream_t(current_stream())), "copy");
}

#else
namespace {

std::string error_text(int error) { return "error " + std::to_string(error); }

}  // namespace

void use_device(int) {}

void* current_stream() { return nullptr; }

int compute_capability(int) { return 0; }

std::string bus_address(int) { return ""; }

DeviceMemory device_memory() { return {}; }

void reset_device_peak() {}

void release_device_memory() {}

int64_t free_device_bytes() { return 0; }

void copy_on_stream(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, size_t(bytes));
}

bool stream_is_captured() { return false; }

void wait_for_stream() {}

#endif

void check_cuda(int error, const char* what) {
  if (error != 0)
    throw Error("[" + std::string(what) + "] the device refused: " + error_text(error));
}

}  // namespace maglev
