#include "base/device/launch.cuh"
#include "kernels/gru/gru.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

// of one element
struct GatesOf {
  int64_t r, place, gate;  ///< row, element of h, its first gate behind a block's begin
  int64_t block;
  float reset, second, candidate, update;

  __device__ GatesOf(const GruArgs& a, int64_t e) {
    const int64_t n = a.blocks * a.width, w = a.width;
    r = e / n, place = e % n, block = place / w, gate = place % w;
    const float* gates = a.gates + block * a.gates_block + r * a.gates_row + gate;
    const float* bias = a.bias + block * 3 * w + gate;
    reset = sigmoid(gates[0] + bias[0]);
    second = gates[w] + bias[w];
    candidate = tanhf(reset * second);
    update = sigmoid(gates[2 * w] + bias[2 * w] - 1.f);
  }
  static __device__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }
};

__global__ void next_of(GruArgs a) {
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= a.rows * a.blocks * a.width) return;
  const GatesOf x(a, e);
  const float h = a.h[x.r * a.h_row + x.place];
  const float next = x.update * (x.candidate - h) + h;
  a.next[x.r * a.next_row + x.place] = next;
  if (a.carried.data) a.carried.of(x.r)[x.place] = next * a.carried.keep[x.r];
}

__global__ void back_of(GruBack b) {
  const GruArgs& a = b.forward;
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= a.rows * a.blocks * a.width) return;
  const GatesOf x(a, e);
  const float h = a.h[x.r * a.h_row + x.place];
  float d_next = b.d_next[x.r * b.d_next_row + x.place];
  if (b.d_carried.data) d_next += b.d_carried.of(x.r)[x.place] * b.d_carried.keep[x.r];
  float* d_gates = b.d_gates + x.block * b.d_gates_block + x.r * b.d_gates_row + x.gate;
  const float through_tanh = d_next * x.update * (1.f - x.candidate * x.candidate);
  d_gates[0] = through_tanh * x.second * x.reset * (1.f - x.reset);
  d_gates[a.width] = through_tanh * x.reset;
  d_gates[2 * a.width] = d_next * (x.candidate - h) * x.update * (1.f - x.update);
  b.d_h[x.r * b.d_h_row + x.place] = d_next * (1.f - x.update);
}

LaunchShape each_of(const GruArgs& a) { return thread_each(a.rows * a.blocks * a.width, kThreads); }

}  // namespace

int gru_cuda(const GruArgs& args, void* stream) {
  return launch_kernel(next_of, each_of(args), stream, args);
}

int gru_back_cuda(const GruBack& args, void* stream) {
  return launch_kernel(back_of, each_of(args.forward), stream, args);
}

}  // namespace maglev
