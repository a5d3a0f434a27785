#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/mppi/mppi.h"
#include "kernels/mppi/mppi_element.h"

namespace maglev {
namespace {

constexpr int kThreads = 256, kWarps = 4;

// a warp: the bins' mean under softmax(logits + bias), in symlog space
__device__ float bins_mean(const TwoHotBins& bins, const void* logits, int64_t row,
                           const float* bias, bool bf16, int lane) {
  float largest = -INFINITY;
  for (int64_t b = lane; b < bins.count; b += 32)
    largest = fmaxf(largest, mppi_load(logits, row * bins.count + b, bf16) + bias[b]);
  largest = warp_max(largest);
  float total = 0, sum = 0;
  for (int64_t b = lane; b < bins.count; b += 32) {
    const float p = expf(mppi_load(logits, row * bins.count + b, bf16) + bias[b] - largest);
    total += p, sum += p * (bins.low + float(b) * bins.width());
  }
  return warp_sum(sum) / warp_sum(total);
}

__device__ int64_t thread_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t warp_index() { return int64_t(blockIdx.x) * kWarps + threadIdx.x / 32; }

__global__ void begin(MppiBegin a) {
  wait_for_earlier();
  const int64_t i = thread_index();
  if (i < a.N * a.H * a.A) mppi_begin_element(a, i);
  if (i < a.I * a.N) mppi_begin_pair(a, i);
}

__global__ void sample(MppiSample a) {
  wait_for_earlier();
  const int64_t i = thread_index();
  if (i < a.N * a.H * (a.S - a.P) * a.A) mppi_sample_element(a, i);
}

__global__ void policy(MppiPolicy a) {
  wait_for_earlier();
  const int64_t i = thread_index();
  if (i < a.N * a.R * a.A) mppi_policy_element(a, i);
}

__global__ void reward(MppiReward a) {
  wait_for_earlier();
  const int64_t row = warp_index();
  const int lane = int(threadIdx.x % 32);
  if (row >= a.N * a.R) return;
  const float mean = bins_mean(a.bins, a.logits, row, a.bias, a.bf16, lane);
  if (lane == 0) mppi_reward_row(a, row, mean);
}

__global__ void total(MppiTotal a) {
  wait_for_earlier();
  const int64_t row = warp_index();
  const int lane = int(threadIdx.x % 32);
  if (row >= a.N * a.S) return;
  const int64_t first = 2 * (row / a.S), s = row % a.S;
  float q[2];
  for (int64_t k = 0; k < 2; ++k)
    q[k] = bins_mean(a.bins, a.logits, (first + k) * a.S + s, a.bias + (first + k) * a.bias_step,
                     a.bf16, lane);
  if (lane == 0) mppi_total_row(a, row, q[0], q[1]);
}

// a warp: moments of element i of [N, H, A], its threads beside each other over the elites
__device__ void warp_moments(const MppiElites& a, int64_t i, const uint16_t* place,
                             const float* score) {
  const int lane = int(threadIdx.x % 32), E = int(a.E);
  const int64_t k = i % a.A, t = i / a.A % a.H, n = i / (a.A * a.H);
  const float* actions = a.actions + (n * a.H + t) * a.S * a.A + k;
  float mean = 0, squares = 0;
  for (int e = lane; e < E; e += 32) mean += score[e] * actions[place[e] * a.A];
  mean = warp_sum(mean);
  for (int e = lane; e < E; e += 32) {
    const float x = actions[place[e] * a.A] - mean;
    squares += score[e] * x * x;
  }
  squares = warp_sum(squares);
  if (lane == 0) mppi_moment(a, i, mean, squares);
}

// One block an environment: every sequence counts those before it. It stands at the end of each
// round, and nothing runs beside it where one environment plans.
__global__ void elites(MppiElites a) {
  wait_for_earlier();
  __shared__ float values[kMostMppiSamples], score[kMostMppiSamples];
  __shared__ uint16_t place[kMostMppiSamples];
  __shared__ float sum;
  const int64_t n = blockIdx.x;
  const int S = int(a.S), E = int(a.E), first = int(threadIdx.x), step = int(blockDim.x);
  for (int s = first; s < S; s += step) values[s] = a.total[n * S + s];
  // ranks of totals that are not numbers leave gaps
  for (int e = first; e < E; e += step) place[e] = 0;
  __syncthreads();
  for (int s = first; s < S; s += step) {
    int rank = 0;
    for (int o = 0; o < S; ++o) rank += mppi_before(values, o, s);
    if (rank < E) place[rank] = uint16_t(s);
  }
  __syncthreads();
  for (int e = first; e < E; e += step)
    score[e] = expf(a.temperature * (values[place[e]] - values[place[0]]));
  __syncthreads();
  // in one order, whatever the number of threads
  if (first < 32) {
    float part = 0;
    for (int e = first; e < E; e += 32) part += score[e];
    part = warp_sum(part);
    if (first == 0) sum = part;
  }
  __syncthreads();
  for (int e = first; e < E; e += step) {
    score[e] /= sum;
    a.scores[n * E + e] = score[e], a.elites[n * E + e] = place[e];
  }
  __syncthreads();
  const int64_t elements = a.H * a.A;
  for (int64_t i = first / 32; i < elements; i += step / 32)
    warp_moments(a, n * elements + i, place, score);
}

__global__ void choose(MppiChoose a) {
  wait_for_earlier();
  const int64_t n = thread_index();
  if (n < a.N) mppi_choose_row(a, n);
}

}  // namespace

int mppi_begin_cuda(const MppiBegin& a, void* stream) {
  const int64_t elements = a.N * a.H * a.A, pairs = a.I * a.N;
  return launch_kernel(begin, thread_each(elements > pairs ? elements : pairs, kThreads), stream,
                       a);
}

int mppi_sample_cuda(const MppiSample& a, void* stream) {
  return launch_kernel(sample, thread_each(a.N * a.H * (a.S - a.P) * a.A, kThreads), stream, a);
}

int mppi_policy_cuda(const MppiPolicy& a, void* stream) {
  return launch_kernel(policy, thread_each(a.N * a.R * a.A, kThreads), stream, a);
}

int mppi_reward_cuda(const MppiReward& a, void* stream) {
  return launch_kernel(reward, warp_each(a.N * a.R, kWarps), stream, a);
}

int mppi_total_cuda(const MppiTotal& a, void* stream) {
  return launch_kernel(total, warp_each(a.N * a.S, kWarps), stream, a);
}

int mppi_elites_cuda(const MppiElites& a, void* stream) {
  if (a.S > kMostMppiSamples) return int(cudaErrorInvalidValue);
  return launch_kernel(elites, {.grid = {a.N}, .block = {512}}, stream, a);
}

int mppi_choose_cuda(const MppiChoose& a, void* stream) {
  return launch_kernel(choose, thread_each(a.N, kThreads), stream, a);
}

}  // namespace maglev
