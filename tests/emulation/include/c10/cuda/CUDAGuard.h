#pragma once
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda {

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex index) : guard_(Device(kCUDA, index)) {}

 private:
  c10::DeviceGuard guard_;
};

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream) : guard_(stream.unwrap()) {}

 private:
  c10::StreamGuard guard_;
};

}  // namespace c10::cuda
