#include "base/device/launch.cuh"
#include "kernels/image/image.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void convert(const uint8_t* bytes, int64_t count, float scale, T* out) {
  wait_for_earlier();
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) image_element(bytes[i], scale, out[i]);
}

__global__ void shift(ImageShift a) {
  wait_for_earlier();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.N * a.H * a.W * a.C) return;
  const int64_t c = i % a.C, x = i / a.C % a.W, y = i / (a.C * a.W) % a.H,
                n = i / (a.C * a.W * a.H);
  const int64_t row = image_place(y + image_shift(a.uniforms[2 * n], a.pad), a.H);
  const int64_t column = image_place(x + image_shift(a.uniforms[2 * n + 1], a.pad), a.W);
  a.out[i] = image_normal(a.bytes[((n * a.H + row) * a.W + column) * a.C + c]);
}

}  // namespace

int image_shift_cuda(const ImageShift& args, void* stream) {
  return launch_kernel(shift, thread_each(args.N * args.H * args.W * args.C, kThreads), stream,
                       args);
}

template <class T>
int image_cuda(const uint8_t* bytes, int64_t count, float scale, T* out, void* stream) {
  return launch_kernel(convert<T>, thread_each(count, kThreads), stream, bytes, count, scale, out);
}

template int image_cuda(const uint8_t*, int64_t, float, float*, void*);
template int image_cuda(const uint8_t*, int64_t, float, uint16_t*, void*);

}  // namespace maglev
