#include "base/device/launch.cuh"
#include "kernels/cells/cells.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void decode(CellsArgs<T> args, int64_t count) {
  wait_for_earlier();
  int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e < count) args.out[e] = cell_element(args, e);
}

}  // namespace

template <class T>
int cells_cuda(const CellsArgs<T>& args, void* stream) {
  const int64_t count = args.rows * args.cells * args.channels;
  return launch_kernel(decode<T>, thread_each(count, kThreads), stream, args, count);
}

template int cells_cuda(const CellsArgs<float>&, void*);
template int cells_cuda(const CellsArgs<uint16_t>&, void*);

}  // namespace maglev
