#pragma once
// Graphs of torch's CUDA as this tree uses them, of the emulated device (torch_graph.cpp).

#include <memory>

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>

#include <cuda_runtime.h>

namespace at::cuda {

c10::MempoolId_t graph_pool_handle();

class CUDAGraph {
 public:
  CUDAGraph();
  ~CUDAGraph();
  void register_generator_state(const at::Generator&) {}
  void capture_begin(c10::MempoolId_t pool, cudaStreamCaptureMode mode);
  void capture_end();
  void replay();

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace at::cuda
