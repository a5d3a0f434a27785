#include "base/device/launch.cuh"
#include "kernels/image/image.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void convert(const uint8_t* bytes, int64_t count, float scale, T* out) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) image_element(bytes[i], scale, out[i]);
}

}  // namespace

template <class T>
int image_cuda(const uint8_t* bytes, int64_t count, float scale, T* out, void* stream) {
  return launch_kernel(convert<T>, thread_each(count, kThreads), stream, bytes, count, scale, out);
}

template int image_cuda(const uint8_t*, int64_t, float, float*, void*);
template int image_cuda(const uint8_t*, int64_t, float, uint16_t*, void*);

}  // namespace maglev
