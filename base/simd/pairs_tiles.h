#pragma once
// multiply_pairs by tiles: two by two of sums, to which 32 words of depth and more are added before
// they are stored. One configuration serves: what is no whole tile goes through a block in memory.

#include <algorithm>
#include <cstdint>

#include "base/simd/pairs.h"
#include "base/simd/tiles.h"

namespace maglev {

/// One product on `Tiles`, of a thread's own.
template <class Tiles>
class TilePairs {
 public:
  TilePairs(Tiles& tiles, const PairProduct& product) : tiles_(tiles), p_(product) {}

  void run() {
    TileShapes shapes;
    for (int t = 0; t < 8; ++t) shapes.row_bytes[t] = kRowBytes, shapes.rows[t] = kPairBlock;
    tiles_.configure(shapes);
    for (int64_t o = 0; o < p_.rows; o += 2 * kPairBlock) {
      const bool two = o + kPairBlock < p_.rows;
      for (int64_t c = 0; c < p_.columns; c += 2 * kPairBlock)
        if (c + kPairBlock < p_.columns) two ? sums<2, 2>(o, c) : sums<1, 2>(o, c);
        else two ? sums<2, 1>(o, c) : sums<1, 1>(o, c);
    }
    tiles_.release();
  }

 private:
  static constexpr int64_t kRowBytes = kPairBlock * 4;
  // tiles 0 to 3 are sums, two by two; then two of A and two of B
  static constexpr int kA = 4, kB = 6;

  /// kRows by kColumns tiles of y, from row o and column c on.
  template <int kRows, int kColumns>
  void sums(int64_t o, int64_t c) {
    begin<0>(o, c);
    if constexpr (kColumns > 1) begin<1>(o, c + kPairBlock);
    if constexpr (kRows > 1) begin<2>(o + kPairBlock, c);
    if constexpr (kRows > 1 && kColumns > 1) begin<3>(o + kPairBlock, c + kPairBlock);
    for (const PairPiece& piece : p_.pieces) {
      const uint32_t* a = piece.a + o / kPairBlock * p_.a_rows;
      const uint32_t* b = piece.b + c;
      int64_t left = piece.depth;
      for (; left >= kPairBlock; left -= kPairBlock) {
        step<kRows, kColumns>(a, b, b + kPairBlock, p_.b_row * 4);
        a += kPairBlock * kPairBlock, b += kPairBlock * p_.b_row;
      }
      if (left == 0) continue;
      // behind the depth A holds zeros; B may hold anything, also what is no number
      for (int n = 0; n < kColumns; ++n)
        for (int64_t k = 0; k < kPairBlock; ++k)
          for (int64_t i = 0; i < kPairBlock; ++i)
            tail_[n][k][i] = k < left ? b[k * p_.b_row + n * kPairBlock + i] : 0;
      step<kRows, kColumns>(a, tail_[0][0], tail_[1][0], kRowBytes);
    }
    end<0>(o, c);
    if constexpr (kColumns > 1) end<1>(o, c + kPairBlock);
    if constexpr (kRows > 1) end<2>(o + kPairBlock, c);
    if constexpr (kRows > 1 && kColumns > 1) end<3>(o + kPairBlock, c + kPairBlock);
  }

  /// A block of A and the one 16 rows below, 16 rows of B in two blocks.
  template <int kRows, int kColumns>
  void step(const uint32_t* a, const uint32_t* b, const uint32_t* right, int64_t b_bytes) {
    tiles_.template load<kA>(a, kRowBytes);
    tiles_.template load<kB>(b, b_bytes);
    tiles_.template multiply<0, kA, kB>();
    if constexpr (kColumns > 1) {
      tiles_.template load<kB + 1>(right, b_bytes);
      tiles_.template multiply<1, kA, kB + 1>();
    }
    if constexpr (kRows > 1) {
      tiles_.template load<kA + 1>(a + p_.a_rows, kRowBytes);
      tiles_.template multiply<2, kA + 1, kB>();
    }
    if constexpr (kRows > 1 && kColumns > 1) tiles_.template multiply<3, kA + 1, kB + 1>();
  }

  bool whole(int64_t o, int64_t c) const {
    return o + kPairBlock <= p_.rows && c + kPairBlock <= p_.columns;
  }
  /// Calls each(element of the block, element of y) for those of y.
  template <class Each>
  void for_part(int64_t o, int64_t c, const Each& each) {
    const int64_t rows = std::min(kPairBlock, p_.rows - o);
    const int64_t columns = std::min(kPairBlock, p_.columns - c);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < columns; ++k) each(part_[i][k], p_.y[(o + i) * p_.y_row + c + k]);
  }

  template <int kTile>
  void begin(int64_t o, int64_t c) {
    if (!p_.add && !p_.start) return tiles_.template zero<kTile>();
    if (p_.add && whole(o, c))
      return tiles_.template load<kTile>(p_.y + o * p_.y_row + c, p_.y_row * 4);
    if (p_.add) for_part(o, c, [](float& block, float y) { block = y; });
    else
      for (int64_t i = 0; i < kPairBlock; ++i)
        std::fill_n(part_[i], kPairBlock, p_.start[std::min(o + i, p_.rows - 1) * p_.start_step]);
    tiles_.template load<kTile>(part_, kRowBytes);
  }

  template <int kTile>
  void end(int64_t o, int64_t c) {
    if (whole(o, c)) return tiles_.template store<kTile>(p_.y + o * p_.y_row + c, p_.y_row * 4);
    tiles_.template store<kTile>(part_, kRowBytes);
    for_part(o, c, [](float block, float& y) { y = block; });
  }

  Tiles& tiles_;
  const PairProduct& p_;
  alignas(64) float part_[kPairBlock][kPairBlock] = {};
  alignas(64) uint32_t tail_[2][kPairBlock][kPairBlock] = {};
};

}  // namespace maglev
