#include "base/simd/pairs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/bfloat16.h"
#include "base/core/philox.h"
#include "base/simd/pairs_tiles.h"
#include "tests/emulation/tiles.h"

namespace maglev {
namespace {

/// Who multiplies: this processor's instruction, and tiles in software on every machine.
struct Way {
  const char* name;
  std::function<void(const PairProduct&)> multiply;
};

std::vector<Way> ways() {
  std::vector<Way> list{{"tiles in software", [](const PairProduct& p) {
                           emulation::Tiles tiles;
                           TilePairs<emulation::Tiles>(tiles, p).run();
                         }}};
  if (pair_products_available()) list.push_back({pair_products_name(), multiply_pairs});
  return list;
}

float number(uint64_t seed, uint64_t i) { return 2 * uniform01(philox(seed, 1, i).word[0]) - 1; }
float as_float(uint32_t half) { return std::bit_cast<float>(half << 16); }

struct Shape {
  int64_t rows, columns;
  std::vector<int64_t> depths;  // words of each piece
};

/// Matrices of a shape, rounded, with a number that is none wherever nobody may look.
class Matrices {
 public:
  explicit Matrices(const Shape& s) : shape(s), b_row((s.columns + 15) / 16 * 16 + 16) {
    for (int64_t depth : s.depths) words += whole_pair_blocks(depth);
    a.assign(size_t(pair_blocks_size(s.rows, words)) + 16, 0u);
    // rows behind B's last one belong to others
    b.assign(size_t((words + 16) * b_row) + 16, 0x7FC07FC0u);
    for (int64_t first = 0, piece = 0; piece < int64_t(s.depths.size()); ++piece) {
      for (int64_t k = 0; k < s.depths[size_t(piece)]; ++k) {
        for (int64_t o = 0; o < s.rows; ++o)
          left()[pair_place(o, first + k, words)] = pair(1, uint64_t(o * words + first + k));
        for (int64_t c = 0; c < (s.columns + 15) / 16 * 16; ++c)
          right()[(first + k) * b_row + c] = pair(2, uint64_t(c * 4096 + first + k));
      }
      pieces.push_back(
          {left() + first * kPairBlock, right() + first * b_row, s.depths[size_t(piece)]});
      first += whole_pair_blocks(s.depths[size_t(piece)]);
    }
  }

  /// y of start + A B, from what it holds now.
  void multiply(const Way& way, std::vector<float>& y, const float* start, bool add) const {
    way.multiply({.pieces = pieces,
                  .a_rows = pair_blocks_size(kPairBlock, words),
                  .b_row = b_row,
                  .rows = shape.rows,
                  .columns = shape.columns,
                  .start = start,
                  .start_step = 2,
                  .add = add,
                  .y = y.data(),
                  .y_row = y_row()});
  }
  int64_t y_row() const { return shape.columns + 3; }

  /// The sum of an element of A B, and of its products' sizes.
  std::pair<double, double> exact(int64_t o, int64_t c) const {
    double sum = 0, size = 0;
    for (const PairPiece& piece : pieces)
      for (int64_t k = 0; k < piece.depth; ++k) {
        const uint32_t x = piece.a[pair_place(o, k, words)], w = piece.b[k * b_row + c];
        for (auto [l, r] : {std::pair{x & 0xFFFFu, w & 0xFFFFu}, {x >> 16, w >> 16}}) {
          sum += double(as_float(l)) * double(as_float(r));
          size += std::abs(double(as_float(l)) * double(as_float(r)));
        }
      }
    return {sum, size};
  }

  Shape shape;
  int64_t b_row, words = 0;
  std::vector<PairPiece> pieces;

 private:
  static uint32_t pair(uint64_t seed, uint64_t i) {
    return uint32_t(bfloat16_bits(number(seed, 2 * i))) |
           uint32_t(bfloat16_bits(number(seed, 2 * i + 1))) << 16;
  }
  // where 64 bytes begin
  static uint32_t* aligned(const std::vector<uint32_t>& v) {
    return reinterpret_cast<uint32_t*>((reinterpret_cast<uintptr_t>(v.data()) + 63) / 64 * 64);
  }
  uint32_t* left() const { return aligned(a); }
  uint32_t* right() const { return aligned(b); }

  std::vector<uint32_t> a, b;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list{{16, 16, {16}},
                                       {32, 64, {48}},
                                       {101, 64, {256}},
                                       {1, 16, {1}},
                                       {48, 48, {7, 33}},
                                       {5, 80, {20}},
                                       {17, 33, {16, 2, 9}},
                                       {70, 7, {40}},
                                       {33, 112, {31}},
                                       // parts of the depth that end within a piece and behind one
                                       {40, 64, {300}},
                                       {20, 130, {130, 5, 140}},
                                       {16, 64, {64, 64, 64}}};
  return list;
}

std::string said(const Shape& s, const Way& way) {
  std::string text = std::string(way.name) + ", " + std::to_string(s.rows) + " x " +
                     std::to_string(s.columns) + ", words";
  for (int64_t depth : s.depths) text += " " + std::to_string(depth);
  return text;
}

TEST(Pairs, products_are_those_of_f64) {
  for (const Shape& s : shapes())
    for (const Way& way : ways()) {
      const Matrices m(s);
      std::vector<float> start, y(size_t(s.rows * m.y_row()), 7.f), added;
      for (int64_t o = 0; o < 2 * s.rows; ++o) start.push_back(number(3, uint64_t(o)));
      m.multiply(way, y, start.data(), false);
      added = y;
      m.multiply(way, added, nullptr, true);
      int64_t roundings = 1;
      for (int64_t depth : s.depths) roundings += 2 * depth;
      for (int64_t o = 0; o < s.rows; ++o)
        for (int64_t c = 0; c < m.y_row(); ++c) {
          const size_t i = size_t(o * m.y_row() + c);
          if (c >= s.columns) {
            ASSERT_EQ(y[i], 7.f) << "written behind the columns: " << said(s, way);
            continue;
          }
          // products are exact; every sum is rounded once, whatever their order
          const auto [sum, size] = m.exact(o, c);
          const double first = double(start[size_t(2 * o)]);
          const double bound = (size + std::abs(first)) * double(roundings) * 0x1p-24;
          ASSERT_NEAR(y[i], first + sum, bound) << o << ", " << c << ": " << said(s, way);
          ASSERT_NEAR(added[i], first + 2 * sum, 3 * bound)
              << o << ", " << c << ": " << said(s, way);
        }
    }
}

TEST(Pairs, without_a_start_sums_begin_at_zero) {
  for (const Way& way : ways()) {
    const Matrices m({20, 20, {5}});
    std::vector<float> y(size_t(20 * m.y_row()), 7.f), other(y.size(), -3.f);
    m.multiply(way, y, nullptr, false), m.multiply(way, other, nullptr, false);
    for (int64_t o = 0; o < 20; ++o)
      for (int64_t c = 0; c < 20; ++c)
        ASSERT_EQ(y[size_t(o * m.y_row() + c)], other[size_t(o * m.y_row() + c)]) << way.name;
    ASSERT_NEAR(y[0], m.exact(0, 0).first, m.exact(0, 0).second * 11 * 0x1p-24) << way.name;
  }
}

// what an element is depends on its row and its column alone
TEST(Pairs, an_element_does_not_depend_on_the_columns_beside_it) {
  for (const Way& way : ways())
    for (const std::vector<int64_t>& depths : {std::vector<int64_t>{40, 3}, {140, 3, 130}}) {
      const Matrices whole({70, 112, depths});
      std::vector<float> y(size_t(70 * whole.y_row()));
      whole.multiply(way, y, nullptr, false);
      for (int64_t columns : {1, 16, 31, 64, 80}) {
        Matrices part = whole;
        part.pieces = whole.pieces, part.shape.columns = columns, part.shape.rows = 37;
        std::vector<float> few(size_t(70 * part.y_row()));
        part.multiply(way, few, nullptr, false);
        for (int64_t o = 0; o < 37; ++o)
          for (int64_t c = 0; c < columns; ++c)
            ASSERT_EQ(few[size_t(o * part.y_row() + c)], y[size_t(o * whole.y_row() + c)])
                << o << ", " << c << " of " << columns << ": " << way.name;
      }
    }
}

TEST(Tiles, the_software_refuses_what_the_processor_refuses) {
  emulation::Tiles tiles;
  EXPECT_THROW(tiles.zero<0>(), std::logic_error);
  TileShapes shapes;
  shapes.rows[0] = 17, shapes.row_bytes[0] = 64;
  EXPECT_THROW(tiles.configure(shapes), std::logic_error);
  // sums of 16 x 16, a left side of 8 words and a right side of 16 of them
  for (int t : {0, 1, 2}) shapes.rows[t] = 16, shapes.row_bytes[t] = 64;
  shapes.row_bytes[1] = 32;
  tiles.configure(shapes);
  EXPECT_NO_THROW(tiles.zero<0>());
  EXPECT_THROW((tiles.multiply<0, 1, 2>()), std::logic_error);
}

// numbers by hand: sums of lower and upper halves meet last, and what is not normal is zero
TEST(Tiles, the_software_rounds_as_documented) {
  TileShapes shapes;
  for (int t : {0, 1, 2}) shapes.rows[t] = 2, shapes.row_bytes[t] = 8;
  alignas(64) float sums[2][2] = {{0.f, 1e-40f}, {0.f, 0.f}};
  const uint32_t one = 0x3F80, tiny = 0x0040, big = 0x4B80;  // 1, 2^-127, 2^24
  const uint32_t a[2][2] = {{big | one << 16, one | one << 16}, {tiny, 0}};
  const uint32_t b[2][2] = {{one | one << 16, tiny}, {one | one << 16, 0}};
  emulation::Tiles tiles;
  tiles.configure(shapes);
  tiles.load<0>(sums, 8), tiles.load<1>(a, 8), tiles.load<2>(b, 8);
  tiles.multiply<0, 1, 2>();
  tiles.store<0>(sums, 8);
  // 2^24 + 1 rounds to 2^24 among the lower halves; 1 + 1 among the upper ones is added to that
  EXPECT_EQ(sums[0][0], 0x1p24f + 2);
  EXPECT_EQ(sums[0][1], 0.f);
  EXPECT_EQ(sums[1][0], 0.f);
}

}  // namespace
}  // namespace maglev
