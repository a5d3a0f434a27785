#include "kernels/dense/dense_bf16.h"

#include <algorithm>

#include "base/core/bfloat16.h"
#include "base/core/error.h"
#include "base/simd/targets.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define MAGLEV_DOT_PAIRS 1
// Highway has the instruction from 1.1 on
#define MAGLEV_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif

namespace maglev {

#ifdef MAGLEV_DOT_PAIRS
namespace {

constexpr int64_t kLanes = 16;
// how far ahead of their use weights are fetched, in words
constexpr int64_t kAhead = 256;

// kRows x kVectors sums in registers, as product-inl.h has them; adds to `moments` [2][kPanelRows]
// each row's sums and squares
template <int kRows, int kVectors>
MAGLEV_BF16_TARGET __attribute__((noinline)) void dot_tile(const DenseForwardBf16& a, int64_t o,
                                                           int64_t c, float* moments) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    // behind the last output any start will do: those sums are not kept
    const __m512 start = _mm512_set1_ps(a.start[(o + i < a.out ? o + i : o) * a.start_step]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[i][v] = start;
  }
  // twelve outputs side by side, pair after pair; this tile may begin in their middle
  const uint32_t* tile = a.weight + o / kDenseTile * kDenseTile * a.pairs + o % kDenseTile;
  for (const DenseSegmentBf16& segment : a.segments) {
    const uint32_t* w = tile + segment.first * kDenseTile;
    const uint32_t* x = segment.x + c;
    for (int64_t j = 0; j < segment.pairs; ++j, w += kDenseTile, x += a.stride) {
      __m512bh row[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) row[v] = (__m512bh)_mm512_load_si512(x + v * kLanes);
      _mm_prefetch(reinterpret_cast<const char*>(w + kAhead), _MM_HINT_T0);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const __m512bh factor = (__m512bh)_mm512_set1_epi32(int(w[i]));
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], factor, row[v]);
      }
    }
  }
  // sums out, and into the moments while they are in registers: the end needs no pass for them
  __m512 total[kVectors], square[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    total[v] = _mm512_load_ps(moments + c + v * kLanes);
    square[v] = _mm512_load_ps(moments + kPanelRows + c + v * kLanes);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    if (o + i >= a.out) break;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      _mm512_store_ps(a.sums + (o + i) * a.stride + c + v * kLanes, sum[i][v]);
      total[v] = _mm512_add_ps(total[v], sum[i][v]);
      square[v] = _mm512_fmadd_ps(sum[i][v], sum[i][v], square[v]);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    _mm512_store_ps(moments + c + v * kLanes, total[v]);
    _mm512_store_ps(moments + kPanelRows + c + v * kLanes, square[v]);
  }
}

void dot_products(const DenseForwardBf16& a, float* moments) {
  // columns up to the next multiple of 16 behind the rows
  const int64_t width = (a.rows + kLanes - 1) / kLanes * kLanes;
  for (int64_t o = 0; o < a.out; o += kDenseTile) {
    int64_t c = 0;
    // four vectors of columns take half of the twelve outputs at a time, fewer take all
    for (; c + 4 * kLanes <= width; c += 4 * kLanes) {
      dot_tile<6, 4>(a, o, c, moments);
      if (o + 6 < a.out) dot_tile<6, 4>(a, o + 6, c, moments);
    }
    if (c + 2 * kLanes <= width) dot_tile<12, 2>(a, o, c, moments), c += 2 * kLanes;
    if (c < width) dot_tile<12, 1>(a, o, c, moments);
  }
}

}  // namespace

bool dense_bf16_available() {
  return simd_has_avx512() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bf16");
}
#else
namespace {
void dot_products(const DenseForwardBf16&, float*) {
  MAGLEV_ASSERT(false, "dense_bf16_available() says no here");
}
}  // namespace

bool dense_bf16_available() { return false; }
#endif

void dense_bf16_cpu(const DenseForwardBf16& a) {
  alignas(64) float moments[2 * kPanelRows] = {};
  dot_products(a, moments);
  if (a.end == DenseEnd::none) return;
  dense_pairs_end_cpu({.end = a.end,
                       .out = a.out,
                       .gain = a.gain,
                       .shift = a.shift,
                       .sums = a.sums,
                       .moments = moments,
                       .y = a.y,
                       .stride = a.stride,
                       .rows = a.rows});
}

void pack_dense_bf16(const DensePackBf16& a) {
  const int64_t own = (a.in + 1) / 2;
  for (int64_t o = 0; o < a.out; o += kDenseTile)
    for (int64_t j = 0; j < own; ++j) {
      uint32_t* to = a.packed + o * a.pairs + (a.first + j) * kDenseTile;
      // the lower half is the first of two inputs; zeros where there is no output or input
      for (int64_t k = 0; k < kDenseTile; ++k) {
        const auto bits = [&](int64_t i) {
          if (o + k >= a.out || i >= a.in) return uint32_t(0);
          return uint32_t(bfloat16_bits(a.weight[(o + k) * a.out_step + i * a.in_step]));
        };
        to[k] = bits(2 * j) | bits(2 * j + 1) << 16;
      }
    }
}

}  // namespace maglev
