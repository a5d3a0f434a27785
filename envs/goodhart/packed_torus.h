#pragma once
// A torus of 2-bit cells in 32-bit words, 16 cells a word, cell x of a row at bits 2*(x % 16) of
// word x / 16. 128 x 128 cells are 4 KiB, so thousands of worlds stay in cache, and a row of a
// window is one or two word loads.

#include <cstddef>
#include <cstdint>

#include "base/core/hd.h"
#include "base/core/philox.h"

namespace maglev {

struct CellAt {
  int32_t x, y;
};

/// A view over words owned by someone else; constness is the caller's to keep.
struct PackedTorus {
  uint32_t*
      words;  ///< [height, row_words] and one word more, so that a pair can be loaded anywhere
  int32_t width, height;

  static constexpr uint32_t kWordCells = 16;

  MAGLEV_HD static int32_t row_words(int32_t width) {
    return int32_t((uint32_t(width) + kWordCells - 1) / kWordCells);
  }
  MAGLEV_HD static size_t word_count(int32_t width, int32_t height) {
    return size_t(row_words(width)) * size_t(height) + 1;
  }

  /// `v` in [-n, 2n) brought into [0, n).
  MAGLEV_HD static int32_t wrap(int32_t v, int32_t n) { return v < 0 ? v + n : v >= n ? v - n : v; }

  MAGLEV_HD uint32_t* row(int32_t y) const {
    return words + size_t(uint32_t(y)) * uint32_t(row_words(width));
  }
  MAGLEV_HD uint32_t get(CellAt c) const { return (*word_of(c) >> shift_of(c)) & 3u; }
  /// The cell must be empty.
  MAGLEV_HD void put(CellAt c, uint32_t code) const { *word_of(c) |= code << shift_of(c); }
  MAGLEV_HD void clear(CellAt c) const { *word_of(c) &= ~(3u << shift_of(c)); }
  MAGLEV_HD void clear_all() const {
    const size_t n = word_count(width, height);
    for (size_t i = 0; i < n; ++i) words[i] = 0;
  }

  /// Cells [x, x + n) of a row, x + n <= width, 1 <= n <= 16: cell x in the lowest two bits.
  MAGLEV_HD static uint32_t run(const uint32_t* row, int32_t x, int32_t n) {
    const uint32_t* at = row + uint32_t(x) / kWordCells;
    const uint64_t pair = uint64_t(at[1]) << 32 | at[0];
    return uint32_t(pair >> (2 * (uint32_t(x) % kWordCells))) & (~0u >> (32 - 2 * n));
  }

  /// Cells x, x+1, ... of a row across the seam, 1 <= n <= min(16, width), 0 <= x < width.
  MAGLEV_HD static uint32_t run_around(const uint32_t* row, int32_t x, int32_t n, int32_t width) {
    const int32_t before = width - x;
    if (n <= before) return run(row, x, n);
    return run(row, x, before) | run(row, 0, n - before) << (2 * before);
  }

  /// Calls visit(row, column, bits, n) for the cells of the (2 radius + 1)^2 window around
  /// `centre`, in order: n <= 16 cells from `column` of window row `row`. radius < width and
  /// height.
  template <class Visit>
  MAGLEV_HD void visit_window(CellAt centre, int32_t radius, Visit&& visit) const {
    const int32_t side = 2 * radius + 1;
    const int32_t left = wrap(centre.x - radius, width), top = wrap(centre.y - radius, height);
    // the usual view: one pair of words a row, no seam within a row; twice as fast as the general
    // way below
    if (side <= int32_t(kWordCells) && left + side <= width) {
      const uint32_t stride = uint32_t(row_words(width)), shift = 2 * (uint32_t(left) % kWordCells);
      const uint32_t mask = ~0u >> (32 - 2 * side);
      const uint32_t* at = row(top) + uint32_t(left) / kWordCells;
      // rows until the seam between the last row and the first
      const int32_t before = height - top;
      for (int32_t i = 0, end = side < before ? side : before;;) {
        for (; i < end; ++i, at += stride)
          visit(i, 0, uint32_t((uint64_t(at[1]) << 32 | at[0]) >> shift) & mask, side);
        if (i == side) return;
        at -= size_t(stride) * size_t(height);
        end = side - i < height ? side : i + height;
      }
    }
    const int32_t most = width < int32_t(kWordCells) ? width : int32_t(kWordCells);
    int32_t y = top;
    for (int32_t i = 0; i < side; ++i) {
      int32_t x = left;
      for (int32_t j = 0; j < side;) {
        const int32_t n = side - j < most ? side - j : most;
        visit(i, j, run_around(row(y), x, n, width), n);
        j += n;
        x = wrap(x + n, width);
      }
      y = wrap(y + 1, height);
    }
  }

  /// A cell drawn evenly from all empty cells but `avoid`. There must be one.
  MAGLEV_HD CellAt random_empty(Rng& rng, CellAt avoid) const {
    // one word gives both coordinates: the fraction left after x is even again
    for (int attempt = 0; attempt < 64; ++attempt) {
      const uint64_t scaled = uint64_t(rng.bits()) * uint32_t(width);
      const CellAt c{int32_t(scaled >> 32),
                     int32_t(((scaled & 0xffffffffu) * uint32_t(height)) >> 32)};
      if (get(c) == 0 && !(c.x == avoid.x && c.y == avoid.y)) return c;
    }
    // a crowded world: the k-th of the empty cells, found by counting
    uint32_t empty = 0;
    for_each_empty(avoid, [&](CellAt) { return ++empty, true; });
    uint32_t k = rng.below(empty);
    CellAt found{0, 0};
    for_each_empty(avoid, [&](CellAt c) { return found = c, k-- != 0; });
    return found;
  }

 private:
  MAGLEV_HD uint32_t* word_of(CellAt c) const { return row(c.y) + uint32_t(c.x) / kWordCells; }
  MAGLEV_HD static uint32_t shift_of(CellAt c) { return 2 * (uint32_t(c.x) % kWordCells); }

  /// In raster order, until visit gives false.
  template <class Visit>
  MAGLEV_HD void for_each_empty(CellAt avoid, Visit&& visit) const {
    for (int32_t y = 0; y < height; ++y)
      for (int32_t x = 0; x < width; ++x)
        if (get({x, y}) == 0 && !(x == avoid.x && y == avoid.y) && !visit(CellAt{x, y})) return;
  }
};

/// Packs bits into bytes, lowest first.
class BitWriter {
 public:
  MAGLEV_HD explicit BitWriter(uint8_t* out) : out_(out), pending_(0), held_(0) {}

  /// The lowest `count` <= 32 bits; those above must be 0.
  MAGLEV_HD void push(uint32_t bits, int32_t count) {
    pending_ |= uint64_t(bits) << held_;
    held_ += count;
    if (held_ < 32) return;
    for (int b = 0; b < 4; ++b) out_[b] = uint8_t(pending_ >> (8 * b));
    out_ += 4;
    pending_ >>= 32;
    held_ -= 32;
  }
  /// The last bytes, filled up with 0 bits.
  MAGLEV_HD void flush() {
    for (; held_ > 0; held_ -= 8, pending_ >>= 8) *out_++ = uint8_t(pending_);
  }

 private:
  uint8_t* out_;
  uint64_t pending_;
  int32_t held_;
};

}  // namespace maglev
