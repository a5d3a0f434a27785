#include <cuda_runtime.h>

#include "kernels/ppo_loss/ppo_scalars.h"

namespace maglev {
namespace {

__global__ void begin_update(PpoUpdate update) { ppo_update(update); }
__global__ void begin_minibatch(PpoBegin begin) { ppo_begin(begin); }
__global__ void end_minibatch(PpoEnd end) { ppo_end(end); }

}  // namespace

int ppo_update_cuda(const PpoUpdate& update, void* stream) {
  begin_update<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(update);
  return int(cudaGetLastError());
}

int ppo_begin_cuda(const PpoBegin& begin, void* stream) {
  begin_minibatch<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(begin);
  return int(cudaGetLastError());
}

int ppo_end_cuda(const PpoEnd& end, void* stream) {
  end_minibatch<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(end);
  return int(cudaGetLastError());
}

}  // namespace maglev
