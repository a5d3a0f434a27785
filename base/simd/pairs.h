#pragma once
// Products of small matrices of bfloat16 with sums in f32, by what multiplies pairs of bfloat16 in
// one instruction here: tiles (AMX) or vectors (AVX512_BF16). Callers need not know which.
//
// A word is a pair of bfloat16 that lie behind each other along the depth of a product, the first
// in the lower half. A matrix on the left lies in blocks of 16 rows by 16 words, [16][16] each:
// those of the same rows one behind another, zeros where the matrix ends within a block.

#include <cstdint>
#include <span>

namespace maglev {

/// Rows and words of a block.
constexpr int64_t kPairBlock = 16;

constexpr int64_t whole_pair_blocks(int64_t count) {
  return (count + kPairBlock - 1) / kPairBlock * kPairBlock;
}
/// Words of a matrix in blocks, which begin at 64 bytes.
constexpr int64_t pair_blocks_size(int64_t rows, int64_t words) {
  return whole_pair_blocks(rows) * whole_pair_blocks(words);
}
/// Where word `word` of row `row` lies in a matrix of `words` words a row.
constexpr int64_t pair_place(int64_t row, int64_t word, int64_t words) {
  return row / kPairBlock * kPairBlock * whole_pair_blocks(words) +
         word / kPairBlock * kPairBlock * kPairBlock + row % kPairBlock * kPairBlock +
         word % kPairBlock;
}

/// A piece of the depth.
struct PairPiece {
  const uint32_t* a;  ///< the block it begins at in the first 16 rows
  const uint32_t* b;  ///< [depth][b_row]
  int64_t depth;      ///< words
};

/// y = start + A B, or y += A B: the sum over the pieces, in order. Left and right begin at 64
/// bytes, b_row is a multiple of 16; of B's rows the columns up to the next multiple of 16 are
/// read. An element of y depends on its row of A and its column of B alone, not on its place.
struct PairProduct {
  std::span<const PairPiece> pieces;
  int64_t a_rows;  ///< words from 16 rows of A to the next
  int64_t b_row;
  int64_t rows, columns;
  const float* start = nullptr;  ///< what row o begins with, start[o * start_step]; null: 0
  int64_t start_step = 1;
  bool add = false;  ///< to what y holds; then there is no start
  float* y;          ///< [rows][y_row]
  int64_t y_row;
};
/// Where pair_products_available().
void multiply_pairs(const PairProduct& product);

/// Whether this processor has either instruction, and MAGLEV_SIMD allows it.
bool pair_products_available();
/// "AMX", "AVX512_BF16" or "none": for tests and reports.
const char* pair_products_name();

}  // namespace maglev
