#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/atom_sum/atom_sum.h"

namespace maglev {
namespace {

constexpr int kWarps = 4, kThreads = 128;

__device__ void add_word(float& sum, int32_t row, int64_t rows, float sign, const float* column,
                         int64_t width) {
  if (row == 0) return;
  // what is no row must not be read as one
  const bool known = row > 0 && row < rows;
  sum += known ? sign * column[row * width] : __uint_as_float(0x7fc00000u);
}

// a warp a goal
__global__ void sum_atoms(AtomSum a) {
  wait_for_earlier();
  const int64_t g = int64_t(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
  if (g >= a.count) return;
  const int32_t* goal = a.goals + g * a.slots * 3;
  const float factor = atom_factor(a, g);
  for (int64_t i = threadIdx.x % kWarpThreads; i < a.width; i += kWarpThreads) {
    float sum = 0.f;
    for (const int32_t *atom = goal, *end = goal + a.slots * 3; atom != end; atom += 3) {
      add_word(sum, atom[0], a.predicate_rows, 1.f, a.predicates + i, a.width);
      add_word(sum, atom[1], a.constant_rows, a.first_sign, a.constants + i, a.width);
      add_word(sum, atom[2], a.constant_rows, a.second_sign, a.constants + i, a.width);
    }
    a.out[g * a.width + i] = factor * sum;
  }
}

// a thread a goal
__global__ void name_words(AtomWords args) {
  wait_for_earlier();
  const int64_t g = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (g < args.of.count) atom_words_of(args, g);
}

}  // namespace

int atom_sum_cuda(const AtomSum& args, void* stream) {
  return launch_kernel(sum_atoms, warp_each(args.count, kWarps), stream, args);
}

int atom_words_cuda(const AtomWords& args, void* stream) {
  return launch_kernel(name_words, thread_each(args.of.count, kThreads), stream, args);
}

}  // namespace maglev
