#include "base/device/launch.cuh"
#include "base/env/entry.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

// a thread a pixel: what was seen there before is its own
__global__ void see_pixels(EnvBatch batch, StepIo io, int64_t pixels) {
  wait_for_earlier();
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= pixels) return;
  const ImageView& v = batch.view;
  const int32_t x = int32_t(index % v.w), y = int32_t(index / v.w % v.h);
  const int64_t i = index / (int64_t(v.w) * v.h);
  auto* row = reinterpret_cast<uint8_t*>(io.obs[v.column] + i * io.obs_row_bytes[v.column]);
  see_pixel(v, batch.slots + size_t(i) * batch.slot_bytes, io.is_first[i] != 0, y, x, row);
}

}  // namespace

int see_images_cuda(const EnvBatch& batch, const StepIo& io, int64_t count, void* stream) {
  const int64_t pixels = count * batch.view.h * batch.view.w;
  return launch_kernel(see_pixels, thread_each(pixels, kThreads), stream, batch, io, pixels);
}

}  // namespace maglev
