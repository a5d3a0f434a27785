#include "base/device/launch.cuh"
#include "kernels/replay/replay.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;
constexpr int kTableThreads = 1024;

// sum of `value` over the threads before this one; `total` over all. One block of kTableThreads
__device__ int64_t scan(int64_t value, int64_t& total) {
  __shared__ int64_t sums[2][kTableThreads];
  const int i = int(threadIdx.x);
  int now = 0;
  sums[0][i] = value;
  __syncthreads();
  for (int reach = 1; reach < kTableThreads; reach *= 2, now ^= 1) {
    sums[now ^ 1][i] = sums[now][i] + (i >= reach ? sums[now][i - reach] : 0);
    __syncthreads();
  }
  total = sums[now][kTableThreads - 1];
  const int64_t before = sums[now][i] - value;
  __syncthreads();
  return before;
}

__device__ void sum_up_open(const EpisodeTable& t) {
  if (!t.running) return;
  int64_t before = 0;
  for (int64_t first = 0; first < t.rows; first += kTableThreads) {
    const int64_t r = first + threadIdx.x;
    const int64_t weight = r < t.rows ? open_weight(t, r) : 0;
    int64_t total;
    const int64_t sum = before + scan(weight, total) + weight;
    if (r < t.rows) t.open[r + 1] = sum;
    before += total;
  }
  if (threadIdx.x == 0) t.open[0] = 0, t.counters->open = before;
}

__global__ void reserve(EpisodeTable t, int64_t steps) {
  wait_for_earlier();
  EpisodeCounters& c = *t.counters;
  const int64_t oldest = larger(c.oldest, c.now + steps + 1 - t.slots);
  if (t.by_start)
    for (int64_t r = threadIdx.x; r < t.rows; r += kTableThreads) evict_row(t, r, oldest);
  if (t.prioritised)
    for (int64_t r = threadIdx.x; r < t.rows; r += kTableThreads) evict_starts(t, r, oldest);
  __syncthreads();
  if (threadIdx.x == 0) c.first = first_usable(t, oldest), c.oldest = oldest;
  __syncthreads();
  sum_up_open(t);
}

__global__ void append(EpisodeTable t, EpisodeFlags flags, int64_t steps) {
  wait_for_earlier();
  EpisodeCounters& c = *t.counters;
  const int64_t now = c.now;
  int64_t end = c.end;
  for (int64_t time = now; time < now + steps; ++time) {
    const int64_t at = time % t.slots * t.rows, next = (time + 1) % t.slots * t.rows;
    for (int64_t first = 0; first < t.rows; first += kTableThreads) {
      const int64_t r = first + threadIdx.x;
      Episode finished;
      bool enters = false;
      if (r < t.rows && t.prioritised) enter_start(t, r, time, flags.is_first[next + r]);
      if (r < t.rows)
        enters = step_row(t, r, time, flags.terminated[at + r] | flags.truncated[at + r],
                          flags.is_first[next + r], finished);
      int64_t total;
      const int64_t before = scan(enters, total);
      if (enters) enter_episode(t, end + before, finished);
      end += total;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) c.now = now + steps, c.end = end;
  __syncthreads();
  sum_up_open(t);
}

__device__ int64_t number_of(const ReplaySample& a) { return a.number + (a.base ? *a.base : 0); }

__global__ void draw(ReplaySample a) {
  wait_for_earlier();
  const int64_t b = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (b >= a.B) return;
  const int64_t number = number_of(a);
  if (b == 0 && a.drawn) *a.drawn = number;
  Slice slice = draw_slice(a.table, a.seed, number, b);
  if (slice.begin < 0 || !is_contiguous(a.table, a.is_first, slice)) {
    add_to(&a.table.counters->faults, 1);
    slice = {a.table.counters->oldest, 0};
  }
  a.slices[b] = slice;
  if (a.chance) a.chance[b] = chance_of(a.table, slice);
}

template <class Word>
__device__ void copy(const void* from, void* to, int64_t bytes, int64_t lane, int64_t lanes) {
  const auto* source = static_cast<const Word*>(from);
  auto* target = static_cast<Word*>(to);
  for (int64_t w = lane; w < bytes / int64_t(sizeof(Word)); w += lanes) target[w] = source[w];
}

__device__ void copy_bytes(const void* from, void* to, int64_t bytes, int64_t lane, int64_t lanes) {
  const uint64_t places = uint64_t(from) | uint64_t(to) | uint64_t(bytes);
  if (places % 16 == 0) copy<uint4>(from, to, bytes, lane, lanes);
  else if (places % 4 == 0) copy<uint32_t>(from, to, bytes, lane, lanes);
  else copy<uint8_t>(from, to, bytes, lane, lanes);
}

// blockIdx.y is the column; a warp copies a row
__global__ void gather(ReplaySample a) {
  wait_for_earlier();
  const ReplayColumn& column = a.columns[blockIdx.y];
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t i = thread / 32, lane = thread % 32;
  if (i >= column.times * a.B) return;
  const bool there = column.ahead && a.held && *a.held == number_of(a);
  const Slice slice = a.slices[i % a.B];
  const int64_t place = (slice.begin + i / a.B) % a.table.slots * a.table.rows + slice.row;
  const char* from = there ? static_cast<const char*>(column.ahead) + i * column.row_bytes
                           : static_cast<const char*>(column.from) + place * column.row_bytes;
  copy_bytes(from, static_cast<char*>(column.to) + i * column.row_bytes, column.row_bytes, lane,
             32);
}

// blockIdx.y is the column, blockIdx.z the time and those that a grid's side lie behind it
__global__ void write(ReplayWrite a) {
  wait_for_earlier();
  const ReplayWrite::Column& column = a.columns[blockIdx.y];
  for (int64_t t = blockIdx.z; t < column.times; t += gridDim.z) {
    const int64_t slot = (a.counters->now + t) % a.slots;
    copy_bytes(static_cast<const char*>(column.from) + t * column.slot_bytes,
               static_cast<char*>(column.to) + slot * column.slot_bytes, column.slot_bytes,
               int64_t(blockIdx.x) * blockDim.x + threadIdx.x, int64_t(gridDim.x) * blockDim.x);
  }
}

// whether no slice behind `b` has its row l as one of its rows [first, times)
__device__ bool is_last(const Slice* slices, int64_t B, int64_t b, int64_t l, int64_t first,
                        int64_t times) {
  for (int64_t other = b + 1; other < B; ++other) {
    const int64_t place = slices[b].begin + l - slices[other].begin;
    if (slices[other].row == slices[b].row && place >= first && place < times) return false;
  }
  return true;
}

// blockIdx.y is the column; a warp copies a row
__global__ void put_back(ReplayPutBack a) {
  wait_for_earlier();
  const ReplayPutBack::Column& column = a.columns[blockIdx.y];
  const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t lane = thread % 32, i = a.first * a.B + thread / 32;
  if (i >= a.times * a.B) return;
  const int64_t l = i / a.B, b = i % a.B;
  if (!is_given(a, b, l) || !is_last(a.slices, a.B, b, l, a.first, a.times)) return;
  const Slice slice = a.slices[b];
  const int64_t place = (slice.begin + l) % a.slots * a.rows + slice.row;
  copy_bytes(static_cast<const char*>(column.from) + i * column.row_bytes,
             static_cast<char*>(column.to) + place * column.row_bytes, column.row_bytes, lane, 32);
}

// a thread a row of a slice; of those that share one the last writes its weight alone
__global__ void prioritise(ReplayPriorities a) {
  wait_for_earlier();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, l = i / a.B, b = i % a.B;
  if (l >= a.times) return;
  const EpisodeTable& t = a.table;
  const int64_t time = a.slices[b].begin + l;
  if (!is_held(t, time)) return;
  const int32_t weight = weight_of(a.priority[i], a.exponent);
  raise_to(&t.counters->largest, weight);
  if (!is_last(a.slices, a.B, b, l, 0, a.times)) return;
  const int64_t place = place_of(t, time, a.slices[b].row);
  if (t.weights.weight[place] > 0) set_weight(t, place, weight);
}

}  // namespace

int episodes_reserve_cuda(const EpisodeTable& table, int64_t steps, void* stream) {
  return launch_kernel(reserve, {.block = {kTableThreads}}, stream, table, steps);
}

int episodes_append_cuda(const EpisodeTable& table, const EpisodeFlags& flags, int64_t steps,
                         void* stream) {
  return launch_kernel(append, {.block = {kTableThreads}}, stream, table, flags, steps);
}

int replay_sample_cuda(const ReplaySample& a, void* stream) {
  if (const int error = launch_kernel(draw, thread_each(a.B, kThreads), stream, a)) return error;
  const LaunchShape warp_each{
      .grid = {blocks_of((a.table.length + 1) * a.B * 32, kThreads), a.count}, .block = {kThreads}};
  return launch_kernel(gather, warp_each, stream, a);
}

int replay_put_back_cuda(const ReplayPutBack& a, void* stream) {
  const LaunchShape warp_each{
      .grid = {blocks_of((a.times - a.first) * a.B * 32, kThreads), a.count}, .block = {kThreads}};
  return launch_kernel(put_back, warp_each, stream, a);
}

int replay_prioritise_cuda(const ReplayPriorities& a, void* stream) {
  return launch_kernel(prioritise, thread_each(a.times * a.B, kThreads), stream, a);
}

int replay_write_cuda(const ReplayWrite& a, void* stream) {
  int64_t widest = 1, times = 1;
  for (int c = 0; c < a.count; ++c) {
    widest = larger(widest, a.columns[c].slot_bytes);
    times = larger(times, a.columns[c].times);
  }
  const int64_t words = (widest + 15) / 16;
  // no more threads than a narrow slot has words, in warps
  const int64_t threads = words < kThreads ? (words + 31) / 32 * 32 : kThreads;
  const LaunchShape shape{.grid = {blocks_of(words < 65536 ? words : 65536, threads), a.count,
                                   times < kMostGridSide ? times : kMostGridSide},
                          .block = {threads}};
  return launch_kernel(write, shape, stream, a);
}

}  // namespace maglev
