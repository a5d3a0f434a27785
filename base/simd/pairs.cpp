#include "base/simd/pairs.h"

#include <algorithm>

#include "base/core/error.h"
#include "base/simd/pairs_tiles.h"
#include "base/simd/targets.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define MAGLEV_PAIR_VECTORS 1
// Highway has the instruction from 1.1 on
#define MAGLEV_PAIR_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif

namespace maglev {
namespace {

#ifdef MAGLEV_PAIR_VECTORS
constexpr int64_t kLanes = 16;

// kRows x kVectors sums in registers, as product-inl.h has them, from row o and column c on; the
// rows are of one block
template <int kRows, int kVectors>
MAGLEV_PAIR_TARGET __attribute__((noinline)) void vector_tile(const PairProduct& p, int64_t o,
                                                              int64_t c) {
  float* y = p.y + o * p.y_row + c;
  // the last vector may be a part of one
  __mmask16 there[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v)
    there[v] = __mmask16(0xFFFF >> std::clamp<int64_t>(c + (v + 1) * kLanes - p.columns, 0, 16));
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const __m512 start = _mm512_set1_ps(p.start ? p.start[(o + i) * p.start_step] : 0.f);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = p.add ? _mm512_maskz_loadu_ps(there[v], y + i * p.y_row + v * kLanes) : start;
  }
  const int64_t rows = o / kPairBlock * p.a_rows + o % kPairBlock * kPairBlock, b_row = p.b_row;
  for (const PairPiece& piece : p.pieces) {
    const uint32_t* a = piece.a + rows;
    const uint32_t* b = piece.b + c;
    for (int64_t left = piece.depth; left > 0; left -= kPairBlock) {
      // two blocks ahead: weights come from the last cache
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i)
        _mm_prefetch(
            reinterpret_cast<const char*>(a + 2 * kPairBlock * kPairBlock + i * kPairBlock),
            _MM_HINT_T0);
      const int64_t words = std::min(left, kPairBlock);
      for (int64_t k = 0; k < words; ++k, b += b_row) {
        __m512bh row[kVectors];
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) row[v] = (__m512bh)_mm512_load_si512(b + v * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          const __m512bh factor = (__m512bh)_mm512_set1_epi32(int(a[i * kPairBlock + k]));
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v)
            sum[i][v] = _mm512_dpbf16_ps(sum[i][v], factor, row[v]);
        }
      }
      a += kPairBlock * kPairBlock;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      _mm512_mask_storeu_ps(y + i * p.y_row + v * kLanes, there[v], sum[i][v]);
}

// `rows` of them, at most kRows
template <int kRows, int kVectors>
void vector_rows(const PairProduct& p, int64_t o, int64_t c, int64_t rows) {
  if constexpr (kRows > 1)
    if (rows < kRows) return vector_rows<kRows - 1, kVectors>(p, o, c, rows);
  vector_tile<kRows, kVectors>(p, o, c);
}

// all rows of kVectors vectors of columns
template <int kVectors>
void vector_strip(const PairProduct& p, int64_t c) {
  // enough sums at once to hide the latency of a product
  constexpr int64_t kMost = kVectors == 4 ? 6 : 8;
  for (int64_t o = 0; o < p.rows;) {
    // what is left of a block in parts of nearly the same size: 6, 5 and 5
    const int64_t left = std::min(p.rows - o, kPairBlock - o % kPairBlock);
    const int64_t parts = (left + kMost - 1) / kMost, rows = (left + parts - 1) / parts;
    vector_rows<kMost, kVectors>(p, o, c, rows);
    o += rows;
  }
}

void multiply_by_vectors(const PairProduct& p) {
  int64_t c = 0;
  for (; c + 3 * kLanes < p.columns; c += 4 * kLanes) vector_strip<4>(p, c);
  for (; c + kLanes < p.columns; c += 2 * kLanes) vector_strip<2>(p, c);
  if (c < p.columns) vector_strip<1>(p, c);
}

bool vectors_available() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bf16");
  return has && simd_has_avx512();
}
#else
void multiply_by_vectors(const PairProduct&) {
  MAGLEV_ASSERT(false, "pair_products_available() says no here");
}
bool vectors_available() { return false; }
#endif

}  // namespace

void multiply_pairs(const PairProduct& p) {
#ifdef MAGLEV_TILES
  if (tiles_available()) {
    Tiles tiles;
    return TilePairs<Tiles>(tiles, p).run();
  }
#endif
  multiply_by_vectors(p);
}

// every processor with tiles has these vectors too, and what rounds with them
bool pair_products_available() { return vectors_available(); }

const char* pair_products_name() {
  return tiles_available() ? "AMX" : vectors_available() ? "AVX512_BF16" : "none";
}

}  // namespace maglev
