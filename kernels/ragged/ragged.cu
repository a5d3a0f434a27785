#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/ragged/ragged.h"

namespace maglev {
namespace {

constexpr int kWarps = 4, kColumns = 128;

// Each goal finds its entry of the table, which in the end holds the first place of those that are
// equal: which entry that is depends on who came first, and nothing else does.

__device__ bool are_equal(const int32_t* a, const int32_t* b, int64_t width) {
  for (int64_t i = 0; i < width; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

__device__ int32_t entry_of(const UniqueGoals& a, int64_t place) {
  const GoalColumns& c = a.columns;
  const int32_t* goal = c.goal(place);
  for (uint64_t probe = hash_of_goal(goal, c.width);; ++probe) {
    const auto entry = int32_t(probe & uint64_t(a.table_size - 1));
    const int32_t there = atomicCAS(a.table + entry, -1, int32_t(place));
    if (there >= 0 && !are_equal(goal, c.goal(there), c.width)) continue;
    if (there >= 0) atomicMin(a.table + entry, int32_t(place));
    return entry;
  }
}

// a warp a row: entries in the place of numbers
__global__ void find_entries(UniqueGoals a) {
  wait_for_earlier();
  const GoalColumns& c = a.columns;
  const int64_t b = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (b >= c.B) return;
  const int64_t lane = threadIdx.x % kWarpThreads;
  if (c.states && lane == 0) a.state[b] = entry_of(a, b);
  if (!c.successors) return;
  const int64_t first = (c.states ? c.B : 0) + b * c.slots;
  int32_t end = int32_t(c.slots);
  for (int64_t i = lane; i < end; i += kWarpThreads)
    if (c.goal(first + i)[0] == 0) end = int32_t(i);
  end = warp_min(end);
  for (int64_t i = lane; i < c.slots; i += kWarpThreads)
    a.successor[b * c.slots + i] = i < end ? entry_of(a, first + i) : kNoGoal;
}

__device__ int32_t& name_of(const UniqueGoals& a, int64_t place) {
  const int64_t behind = place - (a.columns.states ? a.columns.B : 0);
  return behind < 0 ? a.state[place] : a.successor[behind];
}

// whether the goal at a place occurs there for the first time
__device__ bool is_first(const UniqueGoals& a, int64_t place) {
  if (place >= a.columns.places()) return false;
  const int32_t entry = name_of(a, place);
  return entry >= 0 && a.table[entry] == place;
}

/// The sum of all threads' x before this one's, and of all; all threads of the block call it.
struct Before {
  int32_t mine, all;
};
__device__ Before sums_of_block(int32_t x) {
  constexpr int kBlockWarps = int(kGoalsOfBlock) / kWarpThreads;
  __shared__ int32_t of_warp[kBlockWarps];
  const int lane = int(threadIdx.x) % kWarpThreads, warp = int(threadIdx.x) / kWarpThreads;
  int32_t sum = x;
  for (int by = 1; by < kWarpThreads; by *= 2) {
    const int32_t other = __shfl_up_sync(~0u, sum, unsigned(by));
    if (lane >= by) sum += other;
  }
  if (lane == kWarpThreads - 1) of_warp[warp] = sum;
  __syncthreads();
  Before before{sum - x, 0};
  for (int w = 0; w < kBlockWarps; ++w) {
    if (w < warp) before.mine += of_warp[w];
    before.all += of_warp[w];
  }
  __syncthreads();
  return before;
}

// a thread a place
__global__ void count_firsts(UniqueGoals a) {
  wait_for_earlier();
  const int64_t place = int64_t(blockIdx.x) * kGoalsOfBlock + threadIdx.x;
  const Before sums = sums_of_block(is_first(a, place));
  if (threadIdx.x == 0) a.firsts[blockIdx.x] = sums.all;
}

__global__ void number_firsts(UniqueGoals a) {
  wait_for_earlier();
  // those of earlier blocks, then of this one
  int32_t earlier = 0;
  for (int64_t i = threadIdx.x; i < blockIdx.x; i += kGoalsOfBlock) earlier += a.firsts[i];
  earlier = sums_of_block(earlier).all;
  const int64_t place = int64_t(blockIdx.x) * kGoalsOfBlock + threadIdx.x;
  const bool first = is_first(a, place);
  const int64_t number = earlier + sums_of_block(first).mine;
  if (!first) return;
  const bool fits = number < a.room;
  a.number[name_of(a, place)] = fits ? int32_t(number) : kNoRoom;
  if (!fits) return;
  const int64_t width = a.columns.width;
  const int32_t* goal = a.columns.goal(place);
  for (int64_t i = 0; i < width; ++i) a.goals[number * width + i] = goal[i];
}

__global__ void name_goals(UniqueGoals a) {
  wait_for_earlier();
  const int64_t place = int64_t(blockIdx.x) * kGoalsOfBlock + threadIdx.x;
  if (place >= a.columns.places()) return;
  int32_t& name = name_of(a, place);
  if (name >= 0) name = a.number[name];
}

// a warp a slot
__global__ void dot_rows(RaggedDot a) {
  wait_for_earlier();
  const int64_t slot = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (slot >= a.B * a.slots) return;
  const int64_t lane = threadIdx.x % kWarpThreads;
  const int32_t successor = a.successor[slot];
  if (successor < 0) {
    if (lane == 0) a.logits[slot] = successor == kNoGoal ? 0.f : __uint_as_float(0x7fc00000u);
    return;
  }
  const float *u = a.u + a.state[slot / a.slots] * a.width, *v = a.v + successor * a.width;
  float sum = 0.f;
  for (int64_t k = lane; k < a.width; k += kWarpThreads) sum += u[k] * v[k];
  sum = warp_sum(sum);
  if (lane == 0) a.logits[slot] = a.scale * sum;
}

// a block a row and a thread a column of it
__global__ void dot_rows_back(RaggedDotBack back) {
  wait_for_earlier();
  const RaggedDot& a = back.of;
  const int64_t b = blockIdx.x, k = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  if (k >= a.width) return;
  float sum = 0.f;
  for (int64_t slot = b * a.slots; slot < (b + 1) * a.slots; ++slot) {
    const int32_t successor = a.successor[slot];
    if (successor == kNoGoal) break;
    if (successor >= 0) sum += a.scale * back.d_logits[slot] * a.v[successor * a.width + k];
  }
  back.d_u[b * a.width + k] = sum;
}

}  // namespace

int unique_goals_cuda(const UniqueGoals& args, void* stream) {
  const GoalColumns& c = args.columns;
  if (const int error = launch_kernel(find_entries, warp_each(c.B, kWarps), stream, args))
    return error;
  const LaunchShape places = thread_each(c.places(), kGoalsOfBlock);
  for (auto* kernel : {count_firsts, number_firsts, name_goals})
    if (const int error = launch_kernel(kernel, places, stream, args)) return error;
  return 0;
}

int ragged_dot_cuda(const RaggedDot& args, void* stream) {
  return launch_kernel(dot_rows, warp_each(args.B * args.slots, kWarps), stream, args);
}

int ragged_dot_back_cuda(const RaggedDotBack& args, void* stream) {
  const LaunchShape shape{.grid = {args.of.B, blocks_of(args.of.width, kColumns)},
                          .block = {kColumns}};
  return launch_kernel(dot_rows_back, shape, stream, args);
}

}  // namespace maglev
