#pragma once
// Convolutions of images in lanes (windows.h) and the gradients of their weights by tiles of
// bfloat16 (tiles.h), with sums in f32. An image row is stored once in the way its reader wants:
//
// - words of channels, [place][pair of channels][16 images]: a row of a window is one run of words,
//   each 64 bytes with all images, so up to 16 of them are the right side of a product as they lie;
// - words of places, [image][place][channel], a word being a number and the same channel's of the
//   next place: 16 columns of a window at two places of all images are such a right side;
// - and of slopes [pair of places][channel][16 images], the left side beside it.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/simd/tiles.h"
#include "base/simd/windows.h"

namespace maglev {

/// Rows and words of a tile.
constexpr int64_t kTileSide = 16;
constexpr int64_t kTileWords = kTileSide * kTileSide;

/// `count` in as few parts of one size as hold up to 16 each; the last may begin within the one
/// before and say the same again.
struct TileParts {
  int64_t count, parts, size;

  explicit constexpr TileParts(int64_t count)
      : count(count),
        parts((count + kTileSide - 1) / kTileSide),
        size((count + parts - 1) / parts) {}
  constexpr int64_t first(int64_t part) const { return std::min(part * size, count - size); }
};

/// One row of places: y[p][o] = start[o] + sum over r < rows and j < depth of the words
/// weight[o][r][j] and x[r x_row + p x_place + j 16], both halves. Distances in words.
struct TileSums {
  const uint32_t* x;  ///< begins at 64 bytes, as all distances do
  int64_t x_row, x_place;
  int64_t rows, depth;
  const uint32_t* weight;  ///< tiles [part of the outputs][rows of the kernel][part of the depth]
  int64_t weight_part;     ///< words of a part of the outputs: with all rows of the kernel
  const float* start;      ///< [outs]
  int64_t places, outs;
  float* y;  ///< output o of place p at y[p y_place + o 16]
  int64_t y_place;
};

/// Words of a part of the weights, and of all.
constexpr int64_t tile_weights_part(int64_t rows, int64_t depth) {
  return rows * TileParts(depth).parts * kTileWords;
}
constexpr int64_t tile_weights_size(int64_t outs, int64_t rows, int64_t depth) {
  return TileParts(outs).parts * tile_weights_part(rows, depth);
}
/// Writes them from word(o, r, j); what no word lies in is 0.
template <class Word>
void write_tile_weights(int64_t outs, int64_t rows, int64_t depth, const Word& word, uint32_t* to) {
  const TileParts of_outs(outs), of_depth(depth);
  std::fill_n(to, tile_weights_size(outs, rows, depth), 0u);
  for (int64_t p = 0; p < of_outs.parts; ++p)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t d = 0; d < of_depth.parts; ++d, to += kTileWords) {
        // a word that two parts hold counts in the first; outputs of two parts are worked out twice
        const int64_t first = of_depth.first(d), said = d * of_depth.size - first;
        for (int64_t i = 0; i < of_outs.size; ++i)
          for (int64_t w = said; w < of_depth.size; ++w)
            to[i * kTileSide + w] = word(of_outs.first(p) + i, r, first + w);
      }
}

/// Strips of columns that are worked on at once.
constexpr int64_t tile_strips(int64_t columns) { return (columns + kTileSide - 1) / kTileSide; }

/// grad[r][j][o] += sum over rows y < height, places p and images of dz[y][p][o] times number j of
/// row y + r of the window at p. Of rows of x up to kTileSide words more are read than a window
/// has.
struct TileGrads {
  const uint32_t* x;  ///< words of places; row 0 is what the window's first row sees of y = 0
  int64_t x_row, x_image, x_place;
  const uint32_t* dz;  ///< words of slopes, begins at 64 bytes
  int64_t dz_row, outs;
  int64_t height, pairs;  ///< rows and pairs of places
  int64_t rows, columns;  ///< of the kernel; columns times channels
  float* grad;            ///< [rows][columns][outs]
};

/// Both on `Tiles`, of a thread's own.
template <class Tiles>
class WindowTiles {
 public:
  explicit WindowTiles(Tiles& tiles) : tiles_(tiles) {}

  void sum(const TileSums& s) {
    const TileParts outs(s.outs), depth(s.depth);
    configure(outs.size, depth.size);
    for (int64_t part = 0; part < outs.parts; ++part) {
      const int64_t o = outs.first(part);
      for (int64_t i = 0; i < outs.size; ++i) std::fill_n(block_[i], kTileSide, s.start[o + i]);
      int64_t p = 0;
      for (; p + 4 <= s.places; p += 4) places<4>(s, depth, part, o, p);
      if (p + 2 <= s.places) places<2>(s, depth, part, o, p), p += 2;
      if (p < s.places) places<1>(s, depth, part, o, p);
    }
    tiles_.release();
  }

  void add_grads(const TileGrads& g) {
    const TileParts outs(g.outs);
    configure(outs.size, kTileSide);
    const int64_t jobs = g.rows * tile_strips(g.columns);
    for (int64_t part = 0; part < outs.parts; ++part)
      for (int64_t job = 0; job < jobs; job += kSums) {
        const auto some = [&](auto sums) { grads(g, outs, part, job, sums); };
        switch (std::min(kSums, jobs - job)) {
          case 5:
            some(std::make_integer_sequence<int, 5>());
            break;
          case 4:
            some(std::make_integer_sequence<int, 4>());
            break;
          case 3:
            some(std::make_integer_sequence<int, 3>());
            break;
          case 2:
            some(std::make_integer_sequence<int, 2>());
            break;
          default:
            some(std::make_integer_sequence<int, 1>());
        }
      }
    tiles_.release();
  }

 private:
  static constexpr int64_t kRowBytes = kTileSide * 4;
  // tiles 0 to 4 are sums, 5 the left side, 6 and 7 right sides in turn
  static constexpr int64_t kSums = 5;

  void configure(int64_t outs, int64_t depth) {
    TileShapes shapes;
    for (int t = 0; t < 8; ++t) {
      shapes.rows[t] = uint8_t(t >= 6 ? depth : outs);
      shapes.row_bytes[t] = uint16_t(t == 5 ? depth * 4 : kRowBytes);
    }
    tiles_.configure(shapes);
  }

  // kPlaces places from p on of one part of the outputs
  template <int kPlaces>
  void places(const TileSums& s, const TileParts& depth, int64_t part, int64_t o, int64_t p) {
    const auto each = [&]<int... kPlace>(std::integer_sequence<int, kPlace...>) {
      (tiles_.template load<kPlace>(block_, kRowBytes), ...);
      const uint32_t* weight = s.weight + part * s.weight_part;
      for (int64_t r = 0; r < s.rows; ++r)
        for (int64_t d = 0; d < depth.parts; ++d, weight += kTileWords) {
          const uint32_t* x = s.x + r * s.x_row + p * s.x_place + depth.first(d) * kTileSide;
          tiles_.template load<5>(weight, kRowBytes);
          ((tiles_.template load<6 + kPlace % 2>(x + kPlace * s.x_place, kRowBytes),
            tiles_.template multiply<kPlace, 5, 6 + kPlace % 2>()),
           ...);
        }
      float* y = s.y + p * s.y_place + o * kTileSide;
      (tiles_.template store<kPlace>(y + kPlace * s.y_place, kRowBytes), ...);
    };
    each(std::make_integer_sequence<int, kPlaces>());
  }

  // as many strips of 16 columns, row of the kernel by row, from number `job` on
  template <int... kSum>
  void grads(const TileGrads& g, const TileParts& outs, int64_t part, int64_t job,
             std::integer_sequence<int, kSum...>) {
    const int64_t strips = tile_strips(g.columns), o = outs.first(part);
    const auto row_of = [&](int64_t n) { return (job + n) / strips; };
    const auto column_of = [&](int64_t n) {
      return std::max<int64_t>(0, std::min((job + n) % strips * kTileSide, g.columns - kTileSide));
    };
    const int64_t from[] = {row_of(kSum) * g.x_row + column_of(kSum)...};
    (tiles_.template zero<kSum>(), ...);
    for (int64_t y = 0; y < g.height; ++y) {
      const uint32_t* x = g.x + y * g.x_row;
      const uint32_t* dz = g.dz + y * g.dz_row + o * kTileSide;
      for (int64_t pair = 0; pair < g.pairs; ++pair) {
        tiles_.template load<5>(dz, kRowBytes);
        ((tiles_.template load<6 + kSum % 2>(x + from[kSum], g.x_image * 4),
          tiles_.template multiply<kSum, 5, 6 + kSum % 2>()),
         ...);
        x += 2 * g.x_place, dz += g.outs * kTileSide;
      }
    }
    // what an earlier part or strip says as well is added there
    const int64_t said = part * outs.size - o;
    const auto add = [&](int64_t n) {
      const int64_t begin = column_of(n), end = std::min(g.columns, begin + kTileSide);
      for (int64_t j = (job + n) % strips * kTileSide; j < end; ++j)
        for (int64_t i = said; i < outs.size; ++i)
          g.grad[(row_of(n) * g.columns + j) * g.outs + o + i] += block_[i][j - begin];
    };
    ((tiles_.template store<kSum>(block_, kRowBytes), add(kSum)), ...);
  }

  Tiles& tiles_;
  alignas(64) float block_[kTileSide][kTileSide];
};

}  // namespace maglev
