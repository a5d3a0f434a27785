// A graph of the emulated device: what a stream was given while it was captured. As on a device,
// nothing of it has happened when the capture ends: memory is as it was when it began.

#include <utility>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include "tests/emulation/capture.h"
#include "tests/emulation/torch_memory.h"

namespace at::cuda {

using namespace maglev::emulation;

struct CUDAGraph::Recorded {
  c10::MempoolId_t pool;
  MemoryCopy before;
  std::vector<StreamWork> works;
};

c10::MempoolId_t graph_pool_handle() {
  static c10::CaptureId_t last = 0;
  return {0, ++last};
}

CUDAGraph::CUDAGraph() : recorded_(std::make_unique<Recorded>()) {}
CUDAGraph::~CUDAGraph() = default;

void CUDAGraph::capture_begin(c10::MempoolId_t pool, cudaStreamCaptureMode) {
  recorded_->pool = pool;
  recorded_->before = copy_of_memory();
  begin_capture(c10::cuda::getCurrentCUDAStream().stream());
  begin_pool(pool);
}

void CUDAGraph::capture_end() {
  // also where the capture is refused nothing of it has happened
  const auto undo = [this] {
    end_pool(recorded_->pool);
    restore_memory(std::exchange(recorded_->before, {}));
  };
  try {
    recorded_->works = end_capture();
  } catch (...) {
    undo();
    throw;
  }
  undo();
}

void CUDAGraph::replay() {
  cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  for (const StreamWork& work : recorded_->works) work(stream);
}

}  // namespace at::cuda
