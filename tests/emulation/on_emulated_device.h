#pragma once
// Operations of this tree on the emulated device: tensors in host memory, work by the CUDA side of
// kernels.

namespace maglev::emulation {

/// While one lives, operations launch the CUDA side of their kernels. All of a program's tensors
/// are device memory from its start on, each storage in bounds of its own.
class OnEmulatedDevice {
 public:
  OnEmulatedDevice();
  ~OnEmulatedDevice();
  OnEmulatedDevice(const OnEmulatedDevice&) = delete;
  OnEmulatedDevice& operator=(const OnEmulatedDevice&) = delete;
};

}  // namespace maglev::emulation
