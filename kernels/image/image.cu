#include <cuda_runtime.h>

#include "kernels/image/image.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void convert(const uint8_t* bytes, int64_t count, float scale, T* out) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) image_element(bytes[i], scale, out[i]);
}

template <class T>
int launch(const uint8_t* bytes, int64_t count, float scale, T* out, void* stream) {
  convert<<<unsigned((count + kThreads - 1) / kThreads), kThreads, 0,
            static_cast<cudaStream_t>(stream)>>>(bytes, count, scale, out);
  return int(cudaGetLastError());
}

}  // namespace

int image_cuda(const uint8_t* bytes, int64_t count, float scale, float* out, void* stream) {
  return launch(bytes, count, scale, out, stream);
}
int image_cuda(const uint8_t* bytes, int64_t count, float scale, uint16_t* out, void* stream) {
  return launch(bytes, count, scale, out, stream);
}

}  // namespace maglev
