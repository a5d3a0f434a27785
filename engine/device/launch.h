#pragma once
// Where an operation on tensors becomes a kernel: one place that looks where the tensors are, takes
// the stream, names the work for a profiler and checks what came of the launch.

#include <string>
#include <type_traits>

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include "base/trace/span.h"
#include "engine/device/device.h"

namespace maglev {

/// Throws Error: `kernel` cannot run on `device`, and what to do instead.
[[noreturn]] void refuse_device(const char* kernel, at::Device device);
/// Throws Error: `kernel` got tensors on two devices.
[[noreturn]] void refuse_devices(const char* kernel, at::Device one, at::Device other);

/// Whether this build has kernels for `device`.
inline bool has_kernels_for(at::Device device) {
  return device.is_cpu() || (kDeviceCode && device.is_cuda());
}

/// The one device of all tensors that are defined, `first` among them. Throws Error when they lie
/// on several, or on one that this build has no kernels for.
template <class... Others>
at::Device device_of(const char* kernel, const at::Tensor& first, const Others&... others) {
  const at::Device device = first.device();
  if (!has_kernels_for(device)) refuse_device(kernel, device);
  [[maybe_unused]] const auto expect_there = [&](const at::Tensor& other) {
    if (other.defined() && other.device() != device) refuse_devices(kernel, device, other.device());
  };
  (expect_there(others), ...);
  return device;
}

/// Whether `device` has dependent launches: CUDA devices of capability 9.0 and later.
bool has_dependent_launch(at::Device device);
/// dependent_launch() as a run on `device` has it, for as long as this is there; off on a processor.
class DependentLaunch {
 public:
  /// Throws Error where it is to be on and the GPU, or this build's code for it, has none.
  DependentLaunch(bool on, at::Device device);
  ~DependentLaunch();
  DependentLaunch(const DependentLaunch&) = delete;
  DependentLaunch& operator=(const DependentLaunch&) = delete;

 private:
  bool before_ = false;
};

/// Whether every row of t, its last dimension, begins at 16 bytes: what kernels read at once.
inline bool rows_at_16_bytes(const at::Tensor& t) {
  const auto whole = [&](int64_t elements) { return elements * t.element_size() % 16 == 0; };
  for (int64_t d = 0; d + 1 < t.dim(); ++d)
    if (t.size(d) > 1 && !whole(t.stride(d))) return false;
  return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
}

/// Runs a kernel where its tensors are: `cpu(args...)` on this thread, or
/// `Cuda(args..., stream)`, which returns a cudaError_t, on the device's current stream. A span
/// "maglev::<kernel>" says so to a profiler, and on the processor one of ours (base/trace).
/// `kernel` is static text. Throws Error when the launch failed or this build has no kernels for
/// `device`.
///
/// `Cuda` is a template argument because a function that is only named there is not linked:
/// its call compiles in every build, and builds without device code leave it out.
template <auto Cuda, class Cpu, class... Args>
void launch(const char* kernel, at::Device device, const Cpu& cpu, const Args&... args) {
  static_assert(std::is_invocable_r_v<int, decltype(Cuda), const Args&..., void*>,
                "the CUDA function takes the same arguments and a stream, and returns an error");
  at::RecordFunction told(at::RecordScope::FUNCTION);
  if (told.isActive()) told.before("maglev::" + std::string(kernel));
  if (device.is_cpu()) {
    const auto span = trace::kernel(kernel);
    return void(cpu(args...));
  }
  if constexpr (kDeviceCode)
    if (device.is_cuda()) return check_cuda(Cuda(args..., current_stream()), kernel);
  refuse_device(kernel, device);
}

}  // namespace maglev
