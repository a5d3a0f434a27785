#include "base/device/launch.cuh"
#include "kernels/keyed_sum/keyed_sum.h"

namespace maglev {
namespace {

constexpr int kColumns = 128;

/// Addends by key: first those that were given, then the sums that blocks left, in the blocks'
/// order.
struct Addends {
  int64_t count;
  const int32_t* key;     ///< [count], in order
  const int64_t* order;   ///< [count]: where the rest of an addend stands; null: at its own place
  const int32_t* source;  ///< null: at its own place
  const float* weight;    ///< null: as it is
  const float* rows;
  float* partial;  ///< [2 blocks, width], written; null: one block has all
  int32_t* partial_key;
};

// a block kKeyedAddends addends, a thread a column of them
__global__ void add_by_key(Addends a, KeyedSum to) {
  wait_for_earlier();
  __shared__ int32_t key[kKeyedAddends];
  __shared__ int64_t row[kKeyedAddends];
  __shared__ float weight[kKeyedAddends];
  const int64_t first = int64_t(blockIdx.x) * kKeyedAddends;
  const int count = int(min(kKeyedAddends, a.count - first));
  for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) {
    const int64_t place = a.order ? a.order[first + i] : first + i;
    key[i] = a.key[first + i];
    row[i] = a.source ? a.source[place] : place;
    weight[i] = a.weight ? a.weight[place] : 1.f;
  }
  __syncthreads();
  // whether the first key's addends begin in an earlier block, and the last one's end in a later
  const bool begun = first > 0 && a.key[first - 1] == key[0];
  const bool goes_on = first + count < a.count && a.key[first + count] == key[count - 1];
  if (a.partial && blockIdx.y == 0 && threadIdx.x == 0)
    a.partial_key[2 * blockIdx.x] = key[0], a.partial_key[2 * blockIdx.x + 1] = key[count - 1];

  const int64_t column = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column >= to.width) return;
  float left[2] = {0.f, 0.f};
  for (int i = 0; i < count;) {
    const int begin = i;
    const bool is_row = uint32_t(key[begin]) < uint64_t(to.keys);
    float sum = 0.f;
    for (; i < count && key[i] == key[begin]; ++i)
      if (is_row) sum += weight[i] * a.rows[row[i] * to.width + column];
    if (begin == 0 && begun) left[0] = sum;
    else if (i == count && goes_on) left[1] = sum;
    else if (is_row) to.out[key[begin] * to.width + column] += sum;
  }
  if (!a.partial) return;
  for (int side = 0; side < 2; ++side)
    a.partial[(2 * int64_t(blockIdx.x) + side) * to.width + column] = left[side];
}

}  // namespace

int keyed_sum_cuda(const KeyedSum& args, void* stream) {
  Addends level{args.count,  args.sorted, args.order,   args.source,
                args.weight, args.rows,   args.partial, args.partial_key};
  for (;;) {
    const int64_t blocks = keyed_sum_blocks(level.count);
    if (blocks <= 1) level.partial = nullptr;
    const LaunchShape shape{.grid = {blocks, blocks_of(args.width, kColumns)}, .block = {kColumns}};
    if (const int error = launch_kernel(add_by_key, shape, stream, level, args)) return error;
    if (blocks <= 1) return 0;
    level = {2 * blocks,
             level.partial_key,
             nullptr,
             nullptr,
             nullptr,
             level.partial,
             level.partial + 2 * blocks * args.width,
             level.partial_key + 2 * blocks};
  }
}

}  // namespace maglev
