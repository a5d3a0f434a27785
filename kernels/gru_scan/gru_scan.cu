#include "base/device/group.cuh"
#include "base/device/launch.cuh"
#include "kernels/gru/gates.cuh"
#include "kernels/gru_scan/gru_scan.h"

namespace maglev {
namespace {

// sequences of a block, which share what is read of the weights: a unit's numbers are read at once
constexpr int kSequences = 4;

// zeros where sequences of a block are not there: sums run over all rows alike
__device__ Float4* cleared(int64_t count) {
  Float4* near = static_cast<Float4*>(dynamic_shared());
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) near[i] = {};
  __syncthreads();
  return near;
}

// A block takes its sequences through all steps: no step waits for a launch, and sequences need
// nothing of each other. A thread has one unit, j; those beyond the last only come to barriers. Sums
// run over units in order.
__global__ void steps_there(GruScanArgs s) {
  wait_for_earlier();
  const int64_t H = s.H, G = 3 * H, first = int64_t(blockIdx.x) * kSequences, j = threadIdx.x;
  const int rows = j < H ? int(min(int64_t(kSequences), s.B - first)) : 0;
  Float4* near = cleared(H);  // what a step begins with

  // what step l begins with, from what was remembered before it
  const auto carry = [&](int64_t l, const float* from) {
    for (int r = 0; r < rows; ++r) {
      const int64_t row = first + r;
      const float kept = from[row * H + j] * s.keep[l * s.B + row];
      near[j].f[r] = s.before[(l * s.B + row) * H + j] = kept;
    }
  };
  carry(0, s.h);

  for (int64_t l = 0; l < s.L; ++l) {
    __syncthreads();
    const int64_t at = l * s.B + first;
    float* behind = s.behind + l * s.B * H;
    if (rows > 0) {
      float sums[kSequences][3] = {};
      for (int r = 0; r < rows; ++r)
        for (int g = 0; g < 3; ++g) sums[r][g] = s.products[(at + r) * G + g * H + j];
      for (int64_t k = 0; k < H; ++k) {
        const Float4 begin = near[k];
        for (int g = 0; g < 3; ++g) {
          const float weight = s.weight_t[k * s.weight_row + g * H + j];
          for (int r = 0; r < kSequences; ++r) sums[r][g] += begin.f[r] * weight;
        }
      }
      for (int r = 0; r < rows; ++r) {
        for (int g = 0; g < 3; ++g) s.gates[(at + r) * G + g * H + j] = sums[r][g];
        const GruGates gates(sums[r][0] + s.bias[j], sums[r][1] + s.bias[H + j],
                             sums[r][2] + s.bias[2 * H + j]);
        behind[(first + r) * H + j] = gates.next(near[j].f[r]);
      }
    }
    // all have read what the step began with
    __syncthreads();
    if (l + 1 < s.L) carry(l + 1, behind);
  }
}

__global__ void steps_back(GruScanBack s) {
  wait_for_earlier();
  const int64_t H = s.H, G = 3 * H, first = int64_t(blockIdx.x) * kSequences, j = threadIdx.x;
  const int rows = j < H ? int(min(int64_t(kSequences), s.B - first)) : 0;
  Float4* near = cleared(G);  // gradients of the gates
  float d_h[kSequences] = {};
  for (int64_t l = s.L; l-- > 0;) {
    const int64_t at = l * s.B + first;
    for (int r = 0; r < rows; ++r) {
      const float* of = s.gates + (at + r) * G + j;
      const GruGates gates(of[0] + s.bias[j], of[H] + s.bias[H + j], of[2 * H] + s.bias[2 * H + j]);
      // by the next step's loss and by what was carried on to it
      float d_next = s.d_behind[(at + r) * H + j];
      if (l + 1 < s.L) d_next += d_h[r] * s.keep[(l + 1) * s.B + first + r];
      float d_gates[3];
      gates.back(d_next, s.before[(at + r) * H + j], d_gates);
      for (int g = 0; g < 3; ++g)
        near[g * H + j].f[r] = s.d_gates[(at + r) * G + g * H + j] = d_gates[g];
      d_h[r] = d_next * (1.f - gates.update);
    }
    __syncthreads();
    if (rows > 0) {
      float sums[kSequences] = {};
      for (int64_t k = 0; k < G; ++k) {
        const float weight = s.weight[k * s.weight_row + j];
        const Float4 d_gates = near[k];
        for (int r = 0; r < kSequences; ++r) sums[r] += d_gates.f[r] * weight;
      }
      for (int r = 0; r < kSequences; ++r) d_h[r] += sums[r];
    }
    // all have read the gates' gradients
    __syncthreads();
  }
  for (int r = 0; r < rows; ++r) s.d_h[(first + r) * H + j] = d_h[r] * s.keep[first + r];
}

// `shared` numbers of each sequence
LaunchShape blocks_for(int64_t B, int64_t H, int64_t shared) {
  constexpr int64_t kWarp = 32;
  return {.grid = {blocks_of(B, kSequences)},
          .block = {blocks_of(H, kWarp) * kWarp},
          .shared_bytes = shared * int64_t(sizeof(Float4))};
}

}  // namespace

int gru_scan_cuda(const GruScanArgs& args, void* stream) {
  return launch_kernel(steps_there, blocks_for(args.B, args.H, args.H), stream, args);
}

int gru_scan_back_cuda(const GruScanBack& args, void* stream) {
  return launch_kernel(steps_back, blocks_for(args.B, args.H, 3 * args.H), stream, args);
}

}  // namespace maglev
