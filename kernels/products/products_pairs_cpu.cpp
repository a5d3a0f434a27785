// Products of rows in bf16: both sides become words of two along the depth, a piece at a time in
// the nearest caches, and what multiplies pairs here (base/simd/pairs.h) does the rest.
#include <algorithm>
#include <array>

#include "base/core/error.h"
#include "base/simd/pairs.h"
#include "kernels/products/products.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
// Highway has the instruction that rounds from 1.1 on
#define MAGLEV_ROUNDING_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace maglev {
namespace {

// B's strip in the first cache, A's rows in the second
constexpr int64_t kPairStrip = 64, kPairWords = 128, kPairRows = 512;

// 16 numbers of which `left` are there, zeros behind them
MAGLEV_ROUNDING_TARGET inline __m512 load_part(const float* from, int64_t left) {
  const auto there = __mmask16((1u << std::clamp<int64_t>(left, 0, kPairBlock)) - 1);
  return _mm512_maskz_loadu_ps(there, from);
}

// lane by lane a word of two
MAGLEV_ROUNDING_TARGET inline __m512i pair_lanes(__m512 first, __m512 second) {
  // numbers 0 to 15 are the first's, the others the second's: i next to 16 + i
  const __m512i turn = _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005,
                                         0x160006, 0x170007, 0x180008, 0x190009, 0x1A000A, 0x1B000B,
                                         0x1C000C, 0x1D000D, 0x1E000E, 0x1F000F);
  const auto rounded = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  return _mm512_permutex2var_epi16(rounded, turn, rounded);
}

// a block of rows whose numbers lie together
MAGLEV_ROUNDING_TARGET void pair_rows(const float* a, int64_t a_row, int64_t rows, int64_t depth,
                                      uint32_t* to) {
  for (int64_t n = 0; n < kPairBlock; ++n, a += a_row, to += kPairBlock) {
    const int64_t left = n < rows ? depth : 0;
    // two blocks ahead: what layers left comes from the last cache
    _mm_prefetch(reinterpret_cast<const char*>(a + 4 * kPairBlock), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(a + 5 * kPairBlock), _MM_HINT_T0);
    const __m512 low = load_part(a, left), high = load_part(a + kPairBlock, left - kPairBlock);
    _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
}

// a block of what lies column after column: pairs of columns, turned
MAGLEV_ROUNDING_TARGET void pair_columns(const float* a, int64_t a_column, int64_t rows,
                                         int64_t depth, uint32_t* to) {
  __m512i x[kPairBlock], y[kPairBlock];
  const auto column = [&](int64_t k) MAGLEV_ROUNDING_TARGET {
    return load_part(a + k * a_column, k < depth ? rows : 0);
  };
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) x[k] = pair_lanes(column(2 * k), column(2 * k + 1));
  // column n next to column n + 8, four times: what was a column is a row
  const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i upper =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 16
    for (int n = 0; n < 8; ++n) {
      y[2 * n] = _mm512_permutex2var_epi32(x[n], lower, x[n + 8]);
      y[2 * n + 1] = _mm512_permutex2var_epi32(x[n], upper, x[n + 8]);
    }
#pragma GCC unroll 16
    for (int n = 0; n < 16; ++n) x[n] = y[n];
  }
#pragma GCC unroll 16
  for (int n = 0; n < 16; ++n) _mm512_store_si512(to + n * kPairBlock, x[n]);
}

// rows of A in blocks, zeros where it ends within one; memory is read in order
void pair_left(const RowProduct& p, const float* a, int64_t rows, int64_t depth, uint32_t* to) {
  const int64_t pairs = (depth + 1) / 2;
  if (p.a_column == 1) {
    for (int64_t r = 0; r < rows; r += kPairBlock)
      for (int64_t k = 0; k < depth; k += 2 * kPairBlock)
        pair_rows(a + r * p.a_row + k, p.a_row, rows - r, depth - k,
                  to + pair_place(r, k / 2, pairs));
  } else {
    for (int64_t k = 0; k < depth; k += 2 * kPairBlock)
      for (int64_t r = 0; r < rows; r += kPairBlock)
        pair_columns(a + r + k * p.a_column, p.a_column, rows - r, depth - k,
                     to + pair_place(r, k / 2, pairs));
  }
}

// a strip of B: pairs of its rows, zeros up to a whole vector
MAGLEV_ROUNDING_TARGET void pair_right(const float* b, int64_t b_row, int64_t columns,
                                       int64_t depth, uint32_t* to) {
  for (int64_t k = 0; k < depth; k += 2, b += 2 * b_row, to += kPairStrip)
    for (int64_t c = 0; c < columns; c += kPairBlock) {
      // the next strip comes from far while this one is multiplied
      _mm_prefetch(reinterpret_cast<const char*>(b + kPairStrip + c), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(b + b_row + kPairStrip + c), _MM_HINT_T0);
      const __m512 first = load_part(b + c, columns - c);
      const __m512 second = load_part(b + b_row + c, k + 1 < depth ? columns - c : 0);
      _mm512_store_si512(to + c, pair_lanes(first, second));
    }
}

void pair_product(const RowProduct& p) {
  alignas(64) uint32_t left[kPairRows * kPairWords], right[kPairWords * kPairStrip];
  for (int64_t r = 0; r < p.rows; r += kPairRows)
    for (int64_t k = 0; k < p.depth; k += 2 * kPairWords) {
      const int64_t rows = std::min(kPairRows, p.rows - r);
      const int64_t depth = std::min(2 * kPairWords, p.depth - k), pairs = (depth + 1) / 2;
      pair_left(p, p.a + r * p.a_row + k * p.a_column, rows, depth, left);
      const std::array piece{PairPiece{left, right, pairs}};
      for (int64_t c = 0; c < p.columns; c += kPairStrip) {
        const int64_t columns = std::min(kPairStrip, p.columns - c);
        pair_right(p.b + k * p.b_row + c, p.b_row, columns, depth, right);
        multiply_pairs({.pieces = piece,
                        .a_rows = kPairBlock * whole_pair_blocks(pairs),
                        .b_row = kPairStrip,
                        .rows = rows,
                        .columns = columns,
                        .add = p.add || k > 0,
                        .y = p.c + r * p.c_row + c,
                        .y_row = p.c_row});
      }
    }
}

}  // namespace

void product_pairs_cpu(const RowProduct& args) {
  MAGLEV_ASSERT(args.a_row == 1 || args.a_column == 1, "A or its transpose has whole rows");
  RowProduct p = args;
  for (int64_t i = 0; i < args.batch; ++i) {
    pair_product(p);
    p.a += p.a_batch, p.b += p.b_batch, p.c += p.c_batch;
  }
}

}  // namespace maglev
#else
namespace maglev {
void product_pairs_cpu(const RowProduct&) {
  MAGLEV_ASSERT(false, "pair_products_available() says no here");
}
}  // namespace maglev
#endif
