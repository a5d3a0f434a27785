#include "base/device/launch.cuh"
#include "kernels/gru/gates.cuh"
#include "kernels/gru/gru.h"

namespace maglev {
namespace {

constexpr int kThreads = 256;

// where one element is: row, element of h, block, its first gate behind the block's begin
struct GruPlace {
  int64_t r, place, block, gate;

  __device__ GruPlace(const GruArgs& a, int64_t e) {
    const int64_t n = a.blocks * a.width;
    r = e / n, place = e % n, block = place / a.width, gate = place % a.width;
  }
};

__device__ GruGates gates_at(const GruArgs& a, const GruPlace& x) {
  const int64_t w = a.width;
  const float* gates = a.gates + x.block * a.gates_block + x.r * a.gates_row + x.gate;
  const float* bias = a.bias + x.block * 3 * w + x.gate;
  return {gates[0] + bias[0], gates[w] + bias[w], gates[2 * w] + bias[2 * w]};
}

__global__ void next_of(GruArgs a) {
  wait_for_earlier();
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= a.rows * a.blocks * a.width) return;
  const GruPlace x(a, e);
  const float next = gates_at(a, x).next(a.h[x.r * a.h_row + x.place]);
  a.next[x.r * a.next_row + x.place] = next;
  if (a.carried.data) a.carried.of(x.r)[x.place] = next * a.carried.keep[x.r];
}

__global__ void back_of(GruBack b) {
  wait_for_earlier();
  const GruArgs& a = b.forward;
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= a.rows * a.blocks * a.width) return;
  const GruPlace x(a, e);
  const GruGates gates = gates_at(a, x);
  float d_next = b.d_next[x.r * b.d_next_row + x.place];
  if (b.d_carried.data) d_next += b.d_carried.of(x.r)[x.place] * b.d_carried.keep[x.r];
  float by_gate[3];
  gates.back(d_next, a.h[x.r * a.h_row + x.place], by_gate);
  float* d_gates = b.d_gates + x.block * b.d_gates_block + x.r * b.d_gates_row + x.gate;
  for (int k = 0; k < 3; ++k) d_gates[k * a.width] = by_gate[k];
  b.d_h[x.r * b.d_h_row + x.place] = d_next * (1.f - gates.update);
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
