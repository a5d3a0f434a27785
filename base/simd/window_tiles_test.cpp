#include "base/simd/window_tiles.h"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/bfloat16.h"
#include "base/core/philox.h"
#include "tests/emulation/tiles.h"

namespace maglev {
namespace {

constexpr float kUntouched = -777;

/// Small whole numbers: sums of their products are exact in any order.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : rng_(seed, 1, 0) {}
  float next() { return float(int(rng_.below(9)) - 4); }

 private:
  Rng rng_;
};

uint32_t word_of(float low, float high) {
  return uint32_t(bfloat16_bits(low)) | uint32_t(bfloat16_bits(high)) << 16;
}
float half_of(uint32_t word, int which) {
  return std::bit_cast<float>(which == 0 ? word << 16 : word & 0xFFFF0000u);
}

/// Words at 64 bytes, and none behind the last: a read beyond them is seen by a sanitizer.
struct Words {
  std::vector<uint32_t> memory;
  uint32_t* data;
  explicit Words(int64_t count) : memory(size_t(count) + 16) {
    const auto at = reinterpret_cast<uintptr_t>(memory.data());
    const size_t skip = ((at + 63) / 64 * 64 - at) / 4;
    memory.resize(skip + size_t(count));
    data = memory.data() + skip;
  }
};

template <class Run>
void on_all_tiles(const Run& run) {
  emulation::Tiles software;
  run(software);
#ifdef MAGLEV_TILES
  Tiles processor;
  if (tiles_available()) run(processor);
#endif
}

struct SumShape {
  int64_t outs, depth, rows, places;
};

TEST(WindowTiles, sums_over_windows_are_exact) {
  for (const SumShape& s : {SumShape{1, 1, 1, 1},
                            {8, 10, 5, 7},
                            {12, 20, 5, 4},
                            {16, 30, 3, 3},
                            {17, 40, 2, 2},
                            {36, 17, 3, 6},
                            {40, 48, 1, 5},
                            {3, 33, 6, 1}})
    on_all_tiles([&](auto& tiles) {
      Numbers numbers(uint64_t(s.outs * 100 + s.depth));
      const auto random = [&] { return word_of(numbers.next(), numbers.next()); };
      // windows of neighbouring places overlap but for two words
      const int64_t x_place = 2 * kTileSide, x_row = (2 * s.places + s.depth) * kTileSide;
      Words x((s.rows - 1) * x_row + (s.places - 1) * x_place + s.depth * kTileSide);
      for (uint32_t* w = x.data; w < x.memory.data() + x.memory.size(); ++w) *w = random();
      std::vector<uint32_t> plain(size_t(s.outs * s.rows * s.depth));
      for (uint32_t& w : plain) w = random();
      const auto at = [&](int64_t o, int64_t r, int64_t j) {
        return plain[size_t((o * s.rows + r) * s.depth + j)];
      };
      Words weight(tile_weights_size(s.outs, s.rows, s.depth));
      write_tile_weights(s.outs, s.rows, s.depth, at, weight.data);
      std::vector<float> start(static_cast<size_t>(s.outs));
      for (float& v : start) v = numbers.next();
      const int64_t y_place = (s.outs + 2) * kTileSide;
      std::vector<float> y(size_t(s.places * y_place), kUntouched);
      WindowTiles(tiles).sum({.x = x.data,
                              .x_row = x_row,
                              .x_place = x_place,
                              .rows = s.rows,
                              .depth = s.depth,
                              .weight = weight.data,
                              .weight_part = tile_weights_part(s.rows, s.depth),
                              .start = start.data(),
                              .places = s.places,
                              .outs = s.outs,
                              .y = y.data(),
                              .y_place = y_place});
      for (int64_t p = 0; p < s.places; ++p)
        for (int64_t o = 0; o < s.outs + 2; ++o)
          for (int64_t n = 0; n < kTileSide; ++n) {
            float sum = o < s.outs ? start[size_t(o)] : kUntouched;
            for (int64_t r = 0; o < s.outs && r < s.rows; ++r)
              for (int64_t j = 0; j < s.depth; ++j)
                for (int half : {0, 1})
                  sum += half_of(at(o, r, j), half) *
                         half_of(x.data[r * x_row + p * x_place + j * kTileSide + n], half);
            ASSERT_EQ(y[size_t(p * y_place + o * kTileSide + n)], sum)
                << s.outs << " outputs of " << s.depth << " words: " << p << ", " << o << ", " << n;
          }
    });
}

struct GradShape {
  int64_t outs, columns, place, rows, height, pairs;  // place: words of x from a place to the next
};

TEST(WindowTiles, gradients_of_weights_are_exact) {
  for (const GradShape& s : {GradShape{1, 3, 1, 3, 1, 1},
                             {8, 15, 3, 5, 4, 3},
                             {12, 40, 8, 5, 2, 2},
                             {16, 16, 4, 2, 3, 1},
                             {17, 33, 11, 3, 2, 2},
                             {40, 5, 1, 1, 2, 4},
                             {24, 80, 16, 5, 2, 1}})
    on_all_tiles([&](auto& tiles) {
      Numbers numbers(uint64_t(s.outs * 100 + s.columns));
      const auto random = [&] { return word_of(numbers.next(), numbers.next()); };
      const int64_t image = 2 * (s.pairs - 1) * s.place + s.columns, x_row = kTileSide * image;
      const int64_t x_rows = s.height + s.rows - 1;
      // behind the last row as many as may be read
      Words x(x_rows * x_row + kTileSide);
      for (int64_t i = 0; i < x_rows * x_row + kTileSide; ++i)
        x.data[i] = i < x_rows * x_row ? random() : 0x7FC07FC0u;
      const int64_t dz_row = s.pairs * s.outs * kTileSide;
      Words dz(s.height * dz_row);
      for (int64_t i = 0; i < s.height * dz_row; ++i) dz.data[i] = random();
      std::vector<float> grad(size_t(s.rows * s.columns * s.outs + 5), kUntouched);
      for (int64_t i = 0; i < s.rows * s.columns * s.outs; ++i) grad[size_t(i)] = 3;
      WindowTiles(tiles).add_grads({.x = x.data,
                                    .x_row = x_row,
                                    .x_image = image,
                                    .x_place = s.place,
                                    .dz = dz.data,
                                    .dz_row = dz_row,
                                    .outs = s.outs,
                                    .height = s.height,
                                    .pairs = s.pairs,
                                    .rows = s.rows,
                                    .columns = s.columns,
                                    .grad = grad.data()});
      for (int64_t r = 0; r < s.rows; ++r)
        for (int64_t j = 0; j < s.columns; ++j)
          for (int64_t o = 0; o < s.outs; ++o) {
            float sum = 3;
            for (int64_t y = 0; y < s.height; ++y)
              for (int64_t p = 0; p < s.pairs; ++p)
                for (int64_t n = 0; n < kTileSide; ++n)
                  for (int half : {0, 1})
                    sum += half_of(dz.data[y * dz_row + (p * s.outs + o) * kTileSide + n], half) *
                           half_of(x.data[(y + r) * x_row + n * image + 2 * p * s.place + j], half);
            ASSERT_EQ(grad[size_t((r * s.columns + j) * s.outs + o)], sum)
                << s.outs << " outputs, " << s.columns << " columns: " << r << ", " << j << ", "
                << o;
          }
      for (size_t i = grad.size() - 5; i < grad.size(); ++i) ASSERT_EQ(grad[i], kUntouched);
    });
}

}  // namespace
}  // namespace maglev
