#pragma once
// multiply_pairs by tiles: four sums at once, one block of rows by four of columns, or two by two
// where fewer columns are left. One configuration serves: what is no whole tile goes through a
// block in memory.

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
    int64_t c = 0;
    for (; c + 3 * kPairBlock < p_.columns; c += 4 * kPairBlock) wide_strip(c);
    for (; c < p_.columns; c += 2 * kPairBlock)
      c + kPairBlock < p_.columns ? narrow_strip<2>(c) : narrow_strip<1>(c);
    tiles_.release();
  }

 private:
  static constexpr int64_t kRowBytes = kPairBlock * 4;
  // tiles 0 to 3 are sums, 4 and 5 blocks of A, 6 and 7 of B

  // words of B's four tiles that stay in a first cache of 48 KiB: 32 KiB, beside rows of A and sums
  static constexpr int64_t kWideDepth = 128;

  /// Where a part of the depth begins or ends: a piece, and words into it.
  struct Place {
    size_t piece = 0;
    int64_t word = 0;
  };
  /// At most `words` further on: the end, or a whole block of a piece.
  Place behind(Place at, int64_t words) const {
    while (at.piece < p_.pieces.size()) {
      const int64_t left = p_.pieces[at.piece].depth - at.word;
      if (words < left) return {at.piece, at.word + words / kPairBlock * kPairBlock};
      words -= left, at = {at.piece + 1, 0};
    }
    return at;
  }
  /// Calls each(A, B, words) for the pieces between two places; words in whole blocks but at a
  /// piece's end.
  template <class Each>
  void for_pieces(Place from, Place to, int64_t o, int64_t c, const Each& each) const {
    for (; from.piece < to.piece || from.word < to.word; from = {from.piece + 1, 0}) {
      const PairPiece& piece = p_.pieces[from.piece];
      const int64_t end = from.piece < to.piece ? piece.depth : to.word;
      each(piece.a + o / kPairBlock * p_.a_rows + from.word * kPairBlock,
           piece.b + from.word * p_.b_row + c, end - from.word);
      if (from.piece == to.piece) return;
    }
  }

  /// Four tiles of columns, a part of the depth after another: its words of B stay near while all
  /// rows of A pass by, and sums are taken up again.
  void wide_strip(int64_t c) {
    Place from;
    do {
      const Place to = behind(from, kWideDepth);
      const bool first = from.piece == 0 && from.word == 0;
      if (first) fill_starts(0);
      for (int64_t o = 0; o < p_.rows; o += kPairBlock) {
        // one block ahead: what was just stored is not where a tile is loaded from
        if (first) fill_starts(o + kPairBlock);
        begin<0>(o, c, first), begin<1>(o, c + kPairBlock, first);
        begin<2>(o, c + 2 * kPairBlock, first), begin<3>(o, c + 3 * kPairBlock, first);
        for_pieces(from, to, o, c, [&](const uint32_t* a, const uint32_t* b, int64_t left) {
          // A comes from further away: it is loaded one step ahead, into two tiles in turn
          constexpr int64_t kBlock = kPairBlock * kPairBlock;
          tiles_.template load<4>(a, kRowBytes);
          for (; left >= 2 * kPairBlock; left -= 2 * kPairBlock) {
            tiles_.template load<5>(a + kBlock, kRowBytes);
            wide_step<4>(b, kPairBlock, p_.b_row * 4);
            if (left > 2 * kPairBlock) tiles_.template load<4>(a + 2 * kBlock, kRowBytes);
            wide_step<5>(b + kPairBlock * p_.b_row, kPairBlock, p_.b_row * 4);
            a += 2 * kBlock, b += 2 * kPairBlock * p_.b_row;
          }
          if (left >= kPairBlock) {
            wide_step<4>(b, kPairBlock, p_.b_row * 4);
            left -= kPairBlock, a += kBlock, b += kPairBlock * p_.b_row;
            if (left > 0) tiles_.template load<4>(a, kRowBytes);
          }
          if (left == 0) return;
          for (int n = 0; n < 4; ++n) fill_tail(n, b + n * kPairBlock, left);
          wide_step<4>(tail_[0][0], kBlock, kRowBytes);
        });
        end<0>(o, c), end<1>(o, c + kPairBlock);
        end<2>(o, c + 2 * kPairBlock), end<3>(o, c + 3 * kPairBlock);
      }
      from = to;
    } while (from.piece < p_.pieces.size());
  }
  /// The block of A in tile `kLeft`, 16 rows of B in four blocks `next` words apart.
  template <int kLeft>
  void wide_step(const uint32_t* b, int64_t next, int64_t b_bytes) {
    tiles_.template load<6>(b, b_bytes);
    tiles_.template multiply<0, kLeft, 6>();
    tiles_.template load<7>(b + next, b_bytes);
    tiles_.template multiply<1, kLeft, 7>();
    tiles_.template load<6>(b + 2 * next, b_bytes);
    tiles_.template multiply<2, kLeft, 6>();
    tiles_.template load<7>(b + 3 * next, b_bytes);
    tiles_.template multiply<3, kLeft, 7>();
  }

  /// One or two tiles of columns, two blocks of rows at once over the whole depth.
  template <int kColumns>
  void narrow_strip(int64_t c) {
    fill_starts(0), fill_starts(kPairBlock);
    for (int64_t o = 0; o < p_.rows; o += 2 * kPairBlock) {
      fill_starts(o + 2 * kPairBlock), fill_starts(o + 3 * kPairBlock);
      if (o + kPairBlock < p_.rows) narrow_sums<2, kColumns>(o, c);
      else narrow_sums<1, kColumns>(o, c);
    }
  }
  /// kRows by kColumns tiles of y, from row o and column c on.
  template <int kRows, int kColumns>
  void narrow_sums(int64_t o, int64_t c) {
    begin<0>(o, c, true);
    if constexpr (kColumns > 1) begin<1>(o, c + kPairBlock, true);
    if constexpr (kRows > 1) begin<2>(o + kPairBlock, c, true);
    if constexpr (kRows > 1 && kColumns > 1) begin<3>(o + kPairBlock, c + kPairBlock, true);
    const Place last{p_.pieces.size(), 0};
    for_pieces({}, last, o, c, [&](const uint32_t* a, const uint32_t* b, int64_t left) {
      for (; left >= kPairBlock; left -= kPairBlock) {
        narrow_step<kRows, kColumns>(a, b, b + kPairBlock, p_.b_row * 4);
        a += kPairBlock * kPairBlock, b += kPairBlock * p_.b_row;
      }
      if (left == 0) return;
      for (int n = 0; n < kColumns; ++n) fill_tail(n, b + n * kPairBlock, left);
      narrow_step<kRows, kColumns>(a, tail_[0][0], tail_[1][0], kRowBytes);
    });
    end<0>(o, c);
    if constexpr (kColumns > 1) end<1>(o, c + kPairBlock);
    if constexpr (kRows > 1) end<2>(o + kPairBlock, c);
    if constexpr (kRows > 1 && kColumns > 1) end<3>(o + kPairBlock, c + kPairBlock);
  }
  /// A block of A and the one 16 rows below, 16 rows of B in two blocks.
  template <int kRows, int kColumns>
  void narrow_step(const uint32_t* a, const uint32_t* b, const uint32_t* right, int64_t b_bytes) {
    tiles_.template load<4>(a, kRowBytes);
    tiles_.template load<6>(b, b_bytes);
    tiles_.template multiply<0, 4, 6>();
    if constexpr (kColumns > 1) {
      tiles_.template load<7>(right, b_bytes);
      tiles_.template multiply<1, 4, 7>();
    }
    if constexpr (kRows > 1) {
      tiles_.template load<5>(a + p_.a_rows, kRowBytes);
      tiles_.template multiply<2, 5, 6>();
    }
    if constexpr (kRows > 1 && kColumns > 1) tiles_.template multiply<3, 5, 7>();
  }

  // what a block of rows begins with, the same in all columns
  void fill_starts(int64_t o) {
    if (p_.add || !p_.start) return;
    for (int64_t i = o; i < std::min(o + kPairBlock, p_.rows); ++i) {
      const float value = p_.start[i * p_.start_step];
      float* row = starts(i);
      for (int64_t k = 0; k < kPairBlock; ++k) row[k] = value;
    }
  }
  // of row o: four blocks take turns
  float* starts(int64_t o) { return starts_[o % (4 * kPairBlock)]; }

  // behind the depth A holds zeros; B may hold anything, also what is no number
  void fill_tail(int n, const uint32_t* b, int64_t rows) {
    for (int64_t k = 0; k < rows; ++k) std::copy_n(b + k * p_.b_row, kPairBlock, tail_[n][k]);
    for (int64_t k = rows; k < filled_[n]; ++k) std::fill_n(tail_[n][k], kPairBlock, 0u);
    filled_[n] = rows;
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

  /// Sums as the product begins with, or as an earlier part of the depth left them.
  template <int kTile>
  void begin(int64_t o, int64_t c, bool first) {
    const bool kept = p_.add || !first;
    if (!kept && !p_.start) return tiles_.template zero<kTile>();
    if (!kept) return tiles_.template load<kTile>(starts(o), kRowBytes);
    if (whole(o, c)) return tiles_.template load<kTile>(p_.y + o * p_.y_row + c, p_.y_row * 4);
    for_part(o, c, [](float& block, float y) { block = y; });
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
  // only what is written is read
  alignas(64) float part_[kPairBlock][kPairBlock];
  alignas(64) float starts_[4 * kPairBlock][kPairBlock];
  alignas(64) uint32_t tail_[4][kPairBlock][kPairBlock];
  // rows of the tails that may not be 0
  int64_t filled_[4] = {kPairBlock, kPairBlock, kPairBlock, kPairBlock};
};

}  // namespace maglev
