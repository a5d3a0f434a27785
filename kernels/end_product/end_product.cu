#include <algorithm>
#include <mma.h>

#include "base/device/launch.cuh"
#include "kernels/dense/end.cuh"
#include "kernels/end_product/end_product.h"

namespace maglev {
namespace {

constexpr int kTile = int(kProductTile), kRows = kTile;
// a block's outputs; warps that share them take a part of the inputs each, and one row's end
constexpr int kTiles = 8, kParts = 2, kColumns = kTiles * kTile, kWarps = kTiles * kParts;
constexpr int kThreads = kWarps * kWarpThreads;
// between rows in shared memory: rows of one width would begin in the same banks
constexpr int64_t kApart = 8;

constexpr int64_t held_line(int64_t inputs) { return product_tiles(inputs) + kApart; }
constexpr int64_t shared_bytes(int64_t inputs) {
  return std::max<int64_t>(kRows * held_line(inputs) * 2, kParts * kRows * kColumns * 4);
}
static_assert(shared_bytes(kMostProductInputs) <= 48 * 1024);

// a warp copies numbers as they are
[[maybe_unused]] __device__ void copy_row(uint16_t* to, const uint16_t* from, int64_t count) {
  const int lane = threadIdx.x % kWarpThreads;
  int64_t copied = 0;
  if (is_aligned(from)) {
    copied = count / kGroup * kGroup;
    for (int64_t i = lane * kGroup; i < copied; i += kWarpThreads * kGroup)
      *reinterpret_cast<Bf16x8*>(to + i) = *reinterpret_cast<const Bf16x8*>(from + i);
  }
  for (int64_t i = copied + lane; i < count; i += kWarpThreads) to[i] = from[i];
}

// a warp makes what row r multiplies; zeros behind it, and where there is no such row
template <int kGroups>
__device__ void fill_row(const EndProduct& a, const EndRow& r, uint16_t* to) {
  const int64_t features = a.rows.features, inputs = features + a.tails;
  const int64_t whole = product_tiles(inputs);
  int64_t filled = 0;
  if (r.row < a.rows.rows) {
    if (features > 0) {
      float value[kGroups][kEndGroup];
      ended_row<uint16_t, kGroups>(a.rows, r, value);
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
        if (end_feature(g) < features) store_group(to + end_feature(g), value[g]);
    }
    if (a.tails > 0) copy_row(to + features, a.tail + r.place(a.tail_steps), a.tails);
    filled = inputs;
  }
  for (int64_t i = filled + threadIdx.x % kWarpThreads; i < whole; i += kWarpThreads) to[i] = 0;
}

// older devices have no products of bf16, and the operation refuses them
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define MAGLEV_BF16_TILES
#endif

#ifdef MAGLEV_BF16_TILES
namespace wmma = nvcuda::wmma;
constexpr int kAhead = 4;
template <class Use, class Layout>
using Tile = wmma::fragment<Use, kTile, kTile, kTile, __nv_bfloat16, Layout>;
using Sums = wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float>;

template <class Any>
__device__ void load(Any& to, const uint16_t* from, int64_t line) {
  wmma::load_matrix_sync(to, reinterpret_cast<const __nv_bfloat16*>(from), unsigned(line));
}

// tiles of weights that a warp asks for together: what they wait for is far away
template <class Layout>
__device__ void ask(Tile<wmma::matrix_b, Layout> (&w)[kAhead], const uint16_t* weight, int64_t line,
                    int64_t first, int64_t last) {
  constexpr bool kTransposed = std::is_same_v<Layout, wmma::col_major>;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int64_t input = (first + i) * kTile;
    if (first + i < last) load(w[i], weight + (kTransposed ? input : input * line), line);
  }
}

// adds the products with rows in shared memory
template <class Layout>
__device__ void multiply(Sums& sums, const Tile<wmma::matrix_b, Layout> (&w)[kAhead],
                         const uint16_t* held, int64_t line, int64_t first, int64_t last) {
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (first + i >= last) break;
    Tile<wmma::matrix_a, wmma::row_major> x;
    load(x, held + (first + i) * kTile, line);
    wmma::mma_sync(sums, x, w[i], sums);
  }
}

#endif

template <int kGroups, bool kTransposed>
__launch_bounds__(kThreads) __global__ void end_product(EndProduct a) {
#ifdef MAGLEV_BF16_TILES
  auto* held = static_cast<uint16_t*>(dynamic_shared());  // [kRows][line]
  const int64_t env = blockIdx.z / a.rows.nets, net = blockIdx.z % a.rows.nets;
  const int64_t row = int64_t(blockIdx.x) * kRows, column = int64_t(blockIdx.y) * kColumns;
  const int64_t line = held_line(a.rows.features + a.tails);
  const int warp = threadIdx.x / kWarpThreads, tile = warp % kTiles, part = warp / kTiles;
  const int64_t own = column + tile * kTile, tiles = (line - kApart) / kTile;
  const int64_t first = tiles * part / kParts, last = tiles * (part + 1) / kParts;
  const uint16_t* weight = a.weight + env * a.weight_steps.env + net * a.weight_steps.net +
                           (kTransposed ? own * a.weight_line : own);
  using Layout = std::conditional_t<kTransposed, wmma::col_major, wmma::row_major>;
  // weights are on their way while rows are waited for and get their ends
  Tile<wmma::matrix_b, Layout> w[kAhead];
  if (own < a.out) ask(w, weight, a.weight_line, first, last);
  wait_for_earlier();
  for (int i = warp; i < kRows; i += kWarps)
    fill_row<kGroups>(a, {.env = env, .net = net, .row = row + i}, held + i * line);
  __syncthreads();

  Sums sums;
  wmma::fill_fragment(sums, 0.f);
  for (int64_t t = first; t < last && own < a.out; t += kAhead) {
    if (t > first) ask(w, weight, a.weight_line, t, last);
    multiply(sums, w, held, line, t, last);
  }
  // parts are added where the rows were
  __syncthreads();
  auto* parts = static_cast<float*>(dynamic_shared());  // [kParts][kRows][kColumns]
  if (own < a.out)
    wmma::store_matrix_sync(parts + part * kRows * kColumns + tile * kTile, sums, kColumns,
                            wmma::mem_row_major);
  __syncthreads();

  uint16_t* y = a.y + env * a.to.env + net * a.to.net + column;
  for (int e = threadIdx.x; e < kRows * kColumns; e += kThreads) {
    const int64_t r = row + e / kColumns, c = e % kColumns;
    if (r >= a.rows.rows || column + c >= a.out) continue;
    float sum = parts[e];
    for (int p = 1; p < kParts; ++p) sum += parts[p * kRows * kColumns + e];
    y[r * a.to.row + c] = bfloat16_bits(sum);
  }
#else
  // code of an older device on a newer one
  __trap();
#endif
}

template <bool kTransposed>
int launch(const EndProduct& a, void* stream) {
  const LaunchShape shape{.grid = {blocks_of(a.rows.rows, kRows), blocks_of(a.out, kColumns),
                                   a.rows.envs * a.rows.nets},
                          .block = {kThreads},
                          .shared_bytes = shared_bytes(a.inputs())};
  if (a.rows.features <= end_features(2))
    return launch_kernel(end_product<2, kTransposed>, shape, stream, a);
  return launch_kernel(end_product<4, kTransposed>, shape, stream, a);
}
static_assert(kMostEndedFeatures == end_features(4));

}  // namespace

int end_product_cuda(const EndProduct& a, void* stream) {
  if (a.rows.features > kMostEndedFeatures || a.inputs() > kMostProductInputs || !a.rows.bf16)
    return int(cudaErrorInvalidValue);
  return a.transposed ? launch<true>(a, stream) : launch<false>(a, stream);
}

}  // namespace maglev
