#include "base/device/launch.cuh"
#include "kernels/ppo_loss/ppo_scalars.h"

namespace maglev {
namespace {

__global__ void begin_update(PpoUpdate update) { ppo_update(update); }
__global__ void begin_minibatch(PpoBegin begin) { ppo_begin(begin); }
__global__ void end_minibatch(PpoEnd end) { ppo_end(end); }

}  // namespace

int ppo_update_cuda(const PpoUpdate& update, void* stream) {
  return launch_kernel(begin_update, kOneThread, stream, update);
}

int ppo_begin_cuda(const PpoBegin& begin, void* stream) {
  return launch_kernel(begin_minibatch, kOneThread, stream, begin);
}

int ppo_end_cuda(const PpoEnd& end, void* stream) {
  return launch_kernel(end_minibatch, kOneThread, stream, end);
}

}  // namespace maglev
