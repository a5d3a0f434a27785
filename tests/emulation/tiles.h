#pragma once
// The processor's tiles (base/simd/tiles.h) in software: what runs on them is tested on every
// machine. After Intel's "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2,
// LDTILECFG, TILELOADD, TILESTORED and TDPBF16PS; what the processor answers with an exception
// throws here.

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/simd/tiles.h"

namespace maglev::emulation {

class Tiles {
 public:
  void configure(const TileShapes& shapes) {
    require(shapes.palette == 1 && shapes.start_row == 0, "the palette is 1");
    for (int t = 0; t < 16; ++t) {
      const int bytes = shapes.row_bytes[t], rows = shapes.rows[t];
      require((rows == 0) == (bytes == 0) && rows <= kRows && bytes <= kRowBytes &&
                  bytes % 4 == 0 && (t < kTiles || rows == 0),
              "a tile has up to 16 rows of up to 64 bytes");
    }
    shapes_ = shapes, configured_ = true;
    std::memset(data_, 0, sizeof data_);
  }
  void release() { configured_ = false; }

  template <int kTile>
  void zero() {
    check<kTile>();
    std::memset(data_[kTile], 0, sizeof data_[kTile]);
  }
  template <int kTile>
  void load(const void* from, int64_t row) {
    check<kTile>();
    // what lies behind the tile's shape becomes zeros
    std::memset(data_[kTile], 0, sizeof data_[kTile]);
    for (int64_t r = 0; r < shapes_.rows[kTile]; ++r)
      std::memcpy(data_[kTile][r], static_cast<const char*>(from) + r * row,
                  shapes_.row_bytes[kTile]);
  }
  template <int kTile>
  void store(void* to, int64_t row) {
    check<kTile>();
    for (int64_t r = 0; r < shapes_.rows[kTile]; ++r)
      std::memcpy(static_cast<char*>(to) + r * row, data_[kTile][r], shapes_.row_bytes[kTile]);
  }
  template <int kSum, int kA, int kB>
  void multiply() {
    check<kSum>(), check<kA>(), check<kB>();
    static_assert(kSum != kA && kSum != kB && kA != kB, "three tiles");
    require(shapes_.rows[kA] == shapes_.rows[kSum] &&
                shapes_.row_bytes[kA] / 4 == shapes_.rows[kB] &&
                shapes_.row_bytes[kB] == shapes_.row_bytes[kSum],
            "shapes fit");
    for (int m = 0; m < shapes_.rows[kSum]; ++m)
      for (int n = 0; n < shapes_.row_bytes[kSum] / 4; ++n) {
        // the lower halves and the upper halves are summed apart, and both added at the end
        float lower = 0, upper = 0;
        for (int k = 0; k < shapes_.rows[kB]; ++k) {
          const uint32_t a = word(kA, m, k), b = word(kB, k, n);
          lower = flushed(std::fma(half(a << 16), half(b << 16), lower));
          upper = flushed(std::fma(half(a), half(b), upper));
        }
        const float before = flushed(std::bit_cast<float>(word(kSum, m, n)));
        const float after = flushed(before + flushed(lower + upper));
        std::memcpy(data_[kSum][m] + 4 * n, &after, 4);
      }
  }

 private:
  static constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

  static void require(bool met, const char* what) {
    if (!met) throw std::logic_error(std::string("[tiles] ") + what);
  }
  template <int kTile>
  void check() const {
    static_assert(kTile >= 0 && kTile < kTiles);
    require(configured_ && shapes_.rows[kTile] > 0, "a tile is configured before it is used");
  }
  uint32_t word(int tile, int row, int column) const {
    uint32_t bits;
    std::memcpy(&bits, data_[tile][row] + 4 * column, 4);
    return bits;
  }
  // numbers too small to be normal count as zero of their sign, and results likewise
  static float flushed(float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x;
  }
  // the upper half of a word, a bfloat16
  static float half(uint32_t word) { return flushed(std::bit_cast<float>(word & 0xFFFF0000u)); }

  TileShapes shapes_;
  bool configured_ = false;
  unsigned char data_[kTiles][kRows][kRowBytes] = {};
};

}  // namespace maglev::emulation
