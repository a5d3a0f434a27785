#include "base/device/launch.cuh"
#include "tests/emulation/faults.h"

namespace maglev::faults {
namespace {

__global__ void turn_around(const float* x, float* out, bool barrier) {
  wait_for_earlier();
  __shared__ float turned[64];
  turned[threadIdx.x] = 0.f;
  __syncthreads();
  turned[63 - threadIdx.x] = x[threadIdx.x];
  if (barrier) __syncthreads();
  out[threadIdx.x] = turned[threadIdx.x];
}

__global__ void add_pairs(const float* x, float* out, bool sync) {
  wait_for_earlier();
  __shared__ float sums[32];
  const int lane = int(threadIdx.x);
  sums[lane] = x[lane];
  __syncthreads();
  for (int half = 16; half > 0; half /= 2) {
    if (sync) __syncwarp();
    if (lane < half) sums[lane] += sums[lane + half];
  }
  if (lane == 0) *out = sums[0];
}

__global__ void wait_below(int threads) {
  wait_for_earlier();
  if (int(threadIdx.x) < threads) __syncthreads();
}

__global__ void wait_by_halves() {
  wait_for_earlier();
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

template <class T>
__global__ void double_each(const T* x, T* out) {
  wait_for_earlier();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  out[i] = T(2 * x[i]);
}

__global__ void leave_one_out(float* out) {
  wait_for_earlier();
  __shared__ float numbers[32];
  if (threadIdx.x != 7) numbers[threadIdx.x] = 1.f;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 0; i < 32; ++i) out[i] = numbers[i];
}

__global__ void write_behind(float* out) {
  wait_for_earlier();
  __shared__ float numbers[32];
  numbers[threadIdx.x + 1] = 1.f;
  __syncthreads();
  out[threadIdx.x] = numbers[threadIdx.x];
}

__global__ void write_dynamic() {
  wait_for_earlier();
  static_cast<float*>(dynamic_shared())[threadIdx.x] = 1.f;
}

__global__ void count_threads(unsigned long long* counter, bool atomic) {
  wait_for_earlier();
  if (atomic) atomicAdd(counter, 1ull);
  else *counter += 1;
}

__global__ void add_lanes(float* out, int lanes) {
  wait_for_earlier();
  if (int(threadIdx.x) >= lanes) return;
  float x = 1.f;
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  out[threadIdx.x] = x;
}

// `first` a launch earlier than it may
__global__ void add_early(const float* first, const float* x, float* out) {
  const float early = first[threadIdx.x];
  wait_for_earlier();
  out[threadIdx.x] = early + x[threadIdx.x];
}

__global__ void write_early(float* out) {
  out[threadIdx.x] = 0.f;
  wait_for_earlier();
}

__global__ void wait_by_some(float* out, int threads) {
  if (int(threadIdx.x) >= threads) return;
  wait_for_earlier();
  out[threadIdx.x] = 0.f;
}

__global__ void nothing() { wait_for_earlier(); }

__global__ void fill_much(float* out) {
  wait_for_earlier();
  __shared__ float much[15 * 1024];
  much[threadIdx.x] = 1.f;
  __syncthreads();
  out[threadIdx.x] = much[31 - threadIdx.x];
}

constexpr LaunchShape warp{.block = {32}}, two_warps{.block = {64}};

}  // namespace

void reverse(const float* x, float* out, bool barrier) {
  launch_kernel(turn_around, two_warps, nullptr, x, out, barrier);
}
void pairs(const float* x, float* out, bool sync) {
  launch_kernel(add_pairs, warp, nullptr, x, out, sync);
}
void some_wait(int threads) { launch_kernel(wait_below, two_warps, nullptr, threads); }
void two_barriers() { launch_kernel(wait_by_halves, two_warps, nullptr); }
void twice(const float* x, float* out, int64_t blocks, cudaStream_t stream) {
  launch_kernel(double_each<float>, {.grid = {blocks}, .block = {32}}, stream, x, out);
}
void twice_bytes(const uint8_t* x, uint8_t* out, int64_t blocks) {
  launch_kernel(double_each<uint8_t>, {.grid = {blocks}, .block = {32}}, nullptr, x, out);
}
void reads_unwritten_shared(float* out) { launch_kernel(leave_one_out, warp, nullptr, out); }
void writes_behind_shared(float* out) { launch_kernel(write_behind, warp, nullptr, out); }
void writes_behind_dynamic_shared(int64_t bytes) {
  launch_kernel(write_dynamic, {.block = {32}, .shared_bytes = bytes}, nullptr);
}
void count(unsigned long long* counter, bool atomic) {
  launch_kernel(count_threads, {.grid = {2}, .block = {32}}, nullptr, counter, atomic);
}
void sum_of_some(float* out, int lanes) { launch_kernel(add_lanes, warp, nullptr, out, lanes); }
void adds_early(const float* first, const float* x, float* out) {
  launch_kernel(add_early, warp, nullptr, first, x, out);
}
void writes_early(float* out) { launch_kernel(write_early, warp, nullptr, out); }
void some_wait_for_earlier(float* out, int threads) {
  launch_kernel(wait_by_some, warp, nullptr, out, threads);
}
void launch_of(dim3 grid, dim3 block, size_t shared_bytes) {
  const cudaLaunchConfig_t config{
      .gridDim = grid, .blockDim = block, .dynamicSmemBytes = shared_bytes};
  cudaLaunchKernelEx(&config, nothing);
}
void uses_much_shared(float* out) { launch_kernel(fill_much, warp, nullptr, out); }
int launched(int64_t blocks, int64_t threads) {
  return launch_kernel(nothing, {.grid = {blocks}, .block = {threads}}, nullptr);
}

}  // namespace maglev::faults
