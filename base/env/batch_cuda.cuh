#pragma once
// The CUDA face of an environment: the same slot functions, one thread a slot. CMake compiles one
// .cu per environment folder that includes this and the environment's header; no torch here.

#include "base/device/launch.cuh"
#include "base/env/batch.h"

namespace maglev {

constexpr int kEnvThreads = 128;

// Slot functions take the structs by address: as grid constants these are read where the launch put
// them, where each thread would first copy them (232 bytes) into memory of its own.

template <class E>
__global__ void reset_slots(const __grid_constant__ EnvBatch batch,
                            const __grid_constant__ StepIo io, int64_t count) {
  wait_for_earlier();
  static_assert(!host_only<E>(), "kHostOnly is new in this header: configure the build again");
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) reset_slot<E>(batch, io, i);
}

template <class E>
__global__ void step_slots(const __grid_constant__ EnvBatch batch,
                           const __grid_constant__ StepIo io, int64_t count) {
  wait_for_earlier();
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) step_slot<E>(batch, io, i);
}

/// Steps as they are drawn, then as they are seen.
template <class E, class Kernel>
int launch_slots(Kernel kernel, const EnvBatch& batch, const StepIo& io, int64_t count,
                 void* stream) {
  const LaunchShape shape = thread_each(count, kEnvThreads);
  if constexpr (shows_images<E>())
    if (batch.view.active()) {
      const StepIo drawn = drawn_io(batch.view, batch, io);
      if (const int error = launch_kernel(kernel, shape, stream, batch, drawn, count)) return error;
      return see_images_cuda(batch, io, count, stream);
    }
  return launch_kernel(kernel, shape, stream, batch, io, count);
}

template <class E>
int launch_reset(const EnvBatch& batch, const StepIo& io, int64_t count, void* stream) {
  return launch_slots<E>(reset_slots<E>, batch, io, count, stream);
}

template <class E>
int launch_step(const EnvBatch& batch, const StepIo& io, int64_t count, void* stream) {
  return launch_slots<E>(step_slots<E>, batch, io, count, stream);
}

}  // namespace maglev
