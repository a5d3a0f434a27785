#pragma once
// How a kernel is launched: through the runtime's call, which the emulated device of
// tests/emulation has as well. `kernel<<<...>>>` is nvcc's alone.

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "base/device/dependent_launch.h"

namespace maglev {

/// Blocks of a grid, or threads of a block.
struct Extent {
  int64_t x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Extent grid, block;
  int64_t shared_bytes = 0;  ///< of dynamic_shared()
};
constexpr LaunchShape kOneThread{};

/// Blocks of `size` that hold `count`.
constexpr int64_t blocks_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// A thread an element, in blocks of `threads`.
constexpr LaunchShape thread_each(int64_t count, int64_t threads) {
  return {.grid = {blocks_of(count, threads)}, .block = {threads}};
}

/// A warp an element, in blocks of `warps`.
constexpr LaunchShape warp_each(int64_t count, int64_t warps) {
  return {.grid = {blocks_of(count, warps)}, .block = {32 * warps}};
}

/// Most blocks a grid has in y and in z.
constexpr int64_t kMostGridSide = 65535;

/// What every device takes (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr bool is_launchable(const LaunchShape& s) {
  const Extent &g = s.grid, &b = s.block;
  return g.x <= 0x7fffffff && g.y <= kMostGridSide && g.z <= kMostGridSide && b.x >= 1 &&
         b.y >= 1 && b.z >= 1 && b.x <= 1024 && b.y <= 1024 && b.z <= 64 &&
         b.x * b.y * b.z <= 1024 && s.shared_bytes >= 0 && s.shared_bytes <= 48 * 1024;
}

/// Bytes that the blocks of this launch share, as its shape asks for; aligned to 32.
__device__ inline void* dynamic_shared() {
#ifdef MAGLEV_EMULATED_CUDA
  return emulated_dynamic_shared();
#else
  extern __shared__ __align__(32) unsigned char of_the_launch[];
  return of_the_launch;
#endif
}

/// Every kernel begins with it, in each of its threads: waits until all that is ahead of its launch
/// in its stream is over and its writes can be read, and lets the launch behind it come onto the
/// device (there it waits here itself). What a thread reads before was written long ago, as weights
/// are: not by the launch ahead, nor by one that it may not have waited for; it writes nothing
/// before. See dependent_launch.
__device__ inline void wait_for_earlier() {
#if defined(MAGLEV_EMULATED_CUDA)
  emulated_wait_for_earlier();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900  // 10 * kDependentLaunchCapability
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Enqueues `kernel(args...)` on `stream` (a cudaStream_t). A grid without blocks is nothing to do.
/// Returns a cudaError_t; cudaErrorInvalidConfiguration for a shape that no device takes.
template <class... Params>
int launch_kernel(void (*kernel)(Params...), const LaunchShape& shape, void* stream,
                  std::type_identity_t<Params>... args) {
  if (!is_launchable(shape)) return int(cudaErrorInvalidConfiguration);
  const Extent &grid = shape.grid, &block = shape.block;
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return int(cudaSuccess);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(grid.x), unsigned(grid.y), unsigned(grid.z));
  config.blockDim = dim3(unsigned(block.x), unsigned(block.y), unsigned(block.z));
  config.dynamicSmemBytes = size_t(shape.shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &early;
  config.numAttrs = dependent_launch().load(std::memory_order_relaxed) ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, args...);
  return int(cudaGetLastError());
}

}  // namespace maglev
