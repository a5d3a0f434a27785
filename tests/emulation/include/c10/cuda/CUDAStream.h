#pragma once
// Streams of torch's CUDA as this tree uses them, of the emulated device (torch_device.cpp).

#include <c10/core/Stream.h>

#include <cuda_runtime.h>

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(Stream stream) : stream_(stream) {}
  cudaStream_t stream() const;
  Stream unwrap() const { return stream_; }

 private:
  Stream stream_;
};

CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex device);

}  // namespace c10::cuda
