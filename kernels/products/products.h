#pragma once
// Products of matrices whose rows lie together, on the processor: layers forward, back to their
// inputs, and the gradients of their weights, on rows as torch keeps them.

#include <cstdint>

namespace maglev {

/// C = A B or C += A B, for each of `batch` triples that lie at equal distances. A result's bits
/// depend on its row of A, its column of B and the depth alone: sums run over the depth in order,
/// in pieces of kProductDepth.
struct RowProduct {
  const float* a;  ///< element (r, k) at a[r * a_row + k * a_column]
  int64_t a_row, a_column;
  const float* b;  ///< [depth][b_row], of which `columns` are read
  int64_t b_row;
  float* c;  ///< [rows][c_row], of which `columns` are written
  int64_t c_row;
  int64_t rows, columns, depth;  ///< depth at least 1
  bool add;
  int64_t batch = 1, a_batch = 0, b_batch = 0, c_batch = 0;
};

/// Depth of a piece: of B it and 64 columns stay in a core's first cache.
constexpr int64_t kProductDepth = 128;

/// Instructions are chosen at run time (SSE4 to AVX-512).
void product_cpu(const RowProduct& args);

/// Whether factors in bfloat16 pay for a product of such sizes: what has few rows (steps of a loop)
/// reads its weights where they lie, what is narrow is a sum. On a device the same ones pay.
constexpr bool product_pairs_pay(int64_t rows, int64_t columns, int64_t depth) {
  return rows >= 48 && columns >= 16 && depth >= 16;
}
/// The same with A and B, which are finite, rounded to bfloat16, sums in f32. Where
/// pair_products_available() (base/simd/pairs.h), by which instruction also says how sums round.
void product_pairs_cpu(const RowProduct& args);

}  // namespace maglev
