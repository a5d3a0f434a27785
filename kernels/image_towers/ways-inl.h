// How a tower's convolutions keep what they see and sum over it: in f32 by vectors, or rounded to
// bfloat16 by tiles. Both say the same to an encoder or decoder:
//
//   float* to = way.begin(row, shape);  // writes numbers [width][channels][16] there,
//   way.see(row, shape);                // and says what they are for
//
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_KERNELS_WAYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_WAYS_INL_H_
#undef MAGLEV_KERNELS_WAYS_INL_H_
#else
#define MAGLEV_KERNELS_WAYS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "base/simd/pairs-inl.h"
#include "base/simd/window_tiles.h"
#include "base/simd/windows-inl.h"
#include "kernels/image_towers/layout.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sums over windows at the places of a row of an image: of the forward pass, or back.
struct RowSums {
  const float* x;  ///< row 0 of the image
  towers::Row of;  ///< its rows
  Seen seen;
  int64_t rows, columns;  ///< of the kernel
  const float* weight;    ///< as packed for all rows of the kernel
  const float* start;
  int64_t outs;
  float* y;  ///< output o of place p at y[p y_place + o 16], from `half` on `below` further
  int64_t y_place, half, below;
};

/// Gradients of a square kernel's weights over rows [first, last) of places.
struct RowGrads {
  const float* x;  ///< of see_for_grads(): the whole image
  towers::Row of;
  const float* slopes;  ///< of see_slopes(): row `first`
  towers::Row slopes_of;
  int64_t slopes_step;  ///< rows of slopes from a row of places to the next
  int64_t height, first, last;
  int64_t kernel;
  float* grad;  ///< [kernel][kernel][channels][outs], added to
};

/// f32: rows lie as they were written, with their sides.
class FloatWay {
 public:
  FloatWay(const towers::WayScratch&, float*) {}

  float* begin(float* row, const towers::Row& shape, int = 0) {
    clear_sides(row, shape.floats(), shape.sides());
    return row + shape.sides();
  }
  void see(float*, const towers::Row&) {}
  void see_for_grads(float*, const towers::Row&) {}
  void see_slopes(float*, float*, const towers::Row&, bool, int = 0) {}

  /// Row y of what see_for_grads() leaves of an image; of slopes for grads.
  static float* grads_row(float* image, const towers::Row& shape, int64_t y) {
    return image + y * shape.floats();
  }
  static void begin_grads(float*, const towers::Row&, int64_t) {}
  static const float* slopes(const float* rows, const float*) { return rows; }
  static int64_t slopes_row(const towers::Row& shape) { return shape.floats(); }
  /// Rows whose gradients are taken at once, even.
  static int64_t chunk(const towers::Row& of, const towers::Row&, int64_t) {
    return towers::chunk_rows(of.width);
  }
  /// Whether rows of slopes are stored where they are begun; `back` as above.
  static constexpr bool stores_slopes(bool) { return true; }

  void sum(const RowSums& s) {
    const int64_t depth = s.columns * s.of.channels;
    sum_windows({.x = s.x + s.seen.first * s.of.floats(),
                 .x_row = s.of.floats(),
                 .x_place = s.of.channels * kImageLanes,
                 .rows = s.seen.count,
                 .depth = depth,
                 .weight = s.weight + s.seen.cut * depth * kOutBlock,
                 .weight_block = s.rows * depth * kOutBlock,
                 .start = s.start,
                 .places = s.of.width,
                 .outs = s.outs,
                 .y = s.y,
                 .y_place = s.y_place,
                 .half = s.half,
                 .below = s.below});
  }

  void add_grads(const RowGrads& g) {
    add_window_grads({.x = g.x,
                      .x_row = g.of.floats(),
                      .x_place = g.of.channels * kImageLanes,
                      .above = g.of.pad,
                      .dz = g.slopes + g.slopes_of.sides(),
                      .dz_row = g.slopes_step * g.slopes_of.floats(),
                      .dz_place = g.slopes_of.channels * kImageLanes,
                      .height = g.height,
                      .places = g.of.width,
                      .first = g.first,
                      .last = g.last,
                      .rows = g.kernel,
                      .columns = g.kernel,
                      .channels = g.of.channels,
                      .outs = g.slopes_of.channels,
                      .grad = g.grad});
  }
};

/// Rounded to bfloat16: a row is written in one place and stored in words (window_tiles.h), which
/// take no more room than its numbers. What arithmetic gives for no number stays none.
template <class Tiles>
class TileWay {
 public:
  TileWay(const towers::WayScratch& at, float* scratch)
      : rows_{scratch + at.row, scratch + at.row + at.row_floats}, sums_(tiles_) {}

  float* begin(float*, const towers::Row& shape, int which = 0) {
    float* row = rows_[which];
    std::fill_n(row, shape.sides(), 0.f);
    // one place more: the last one's neighbour
    float* behind = row + shape.floats() - shape.sides();
    std::fill_n(behind, shape.sides() + shape.channels * kImageLanes, 0.f);
    return row + shape.sides();
  }

  /// Words of channels.
  void see(float* row, const towers::Row& shape) { to_channel_words(rows_[0], shape, row); }

  /// Words of places; images begin with rows of zeros above and below.
  void see_for_grads(float* row, const towers::Row& shape) {
    const ImageTag d;
    const hn::RebindToUnsigned<ImageTag> words;
    const int64_t numbers = shape.floats() / kImageLanes, next = shape.channels * kImageLanes;
    auto* to = reinterpret_cast<uint32_t*>(row);
    HWY_ALIGN uint32_t block[kTileSide * kImageLanes];
    for (int64_t first = 0; first < numbers; first += kTileSide) {
      const int64_t count = std::min(kTileSide, numbers - first);
      const float* from = rows_[0] + first * kImageLanes;
      for (int64_t i = 0; i < count * kImageLanes; i += kImageStep)
        hn::Store(bfloat16_pair(d, hn::Load(d, from + i), hn::Load(d, from + next + i)), words,
                  block + i);
      turn(block, count, to + first, numbers);
    }
  }
  static float* grads_row(float* image, const towers::Row& shape, int64_t y) {
    return image + (y + shape.pad) * shape.floats();
  }
  static void begin_grads(float* image, const towers::Row& shape, int64_t height) {
    std::fill_n(image, shape.pad * shape.floats(), 0.f);
    std::fill_n(image + (height + shape.pad) * shape.floats(), shape.pad * shape.floats(), 0.f);
  }

  /// Words of slopes for the weights' gradients, at `pairs`, and words of channels for those of
  /// what the convolution saw, where `back`.
  void see_slopes(float* row, float* pairs, const towers::Row& shape, bool back, int which = 0) {
    if (back) to_channel_words(rows_[which], shape, row);
    const ImageTag d;
    const hn::RebindToUnsigned<ImageTag> words;
    const int64_t place = shape.channels * kImageLanes;
    const float* from = rows_[which] + shape.sides();
    auto* to = reinterpret_cast<uint32_t*>(pairs);
    for (int64_t p = 0; p < shape.width; p += 2, from += 2 * place, to += place)
      for (int64_t i = 0; i < place; i += kImageStep)
        hn::Store(bfloat16_pair(d, hn::Load(d, from + i), hn::Load(d, from + place + i)), words,
                  to + i);
  }
  static const float* slopes(const float*, const float* pairs) { return pairs; }
  static int64_t slopes_row(const towers::Row& shape) { return shape.slope_words(); }
  // every few tiles of weights read all of it again: it stays in the second cache
  static int64_t chunk(const towers::Row& of, const towers::Row& slopes_of, int64_t step) {
    constexpr int64_t kWords = 256 * 1024;
    return std::max<int64_t>(2, kWords / (of.floats() + step * slopes_of.slope_words()) / 2 * 2);
  }
  static constexpr bool stores_slopes(bool back) { return back; }

  void sum(const RowSums& s) {
    const int64_t place = s.of.pairs() * kImageLanes, depth = s.columns * s.of.pairs();
    const int64_t part = tile_weights_part(s.rows, depth);
    const auto* x = reinterpret_cast<const uint32_t*>(s.x) + s.seen.first * s.of.floats();
    for (int64_t first = 0; first < s.outs; first += s.half) {
      const auto* weight = reinterpret_cast<const uint32_t*>(s.weight) +
                           first / s.half * tile_weights_size(s.half, s.rows, depth);
      sums_.sum({.x = x,
                 .x_row = s.of.floats(),
                 .x_place = place,
                 .rows = s.seen.count,
                 .depth = depth,
                 .weight = weight + s.seen.cut * (part / s.rows),
                 .weight_part = part,
                 .start = s.start + first,
                 .places = s.of.width,
                 .outs = s.half,
                 .y = s.y + first * kImageLanes + (first > 0 ? s.below : 0),
                 .y_place = s.y_place});
    }
  }

  void add_grads(const RowGrads& g) {
    const int64_t images = g.of.floats();
    sums_.add_grads({.x = reinterpret_cast<const uint32_t*>(g.x) + g.first * images,
                     .x_row = images,
                     .x_image = images / kImageLanes,
                     .x_place = g.of.channels,
                     .dz = reinterpret_cast<const uint32_t*>(g.slopes),
                     .dz_row = g.slopes_step * g.slopes_of.slope_words(),
                     .outs = g.slopes_of.channels,
                     .height = g.last - g.first,
                     .pairs = (g.of.width + 1) / 2,
                     .rows = g.kernel,
                     .columns = g.kernel * g.of.channels,
                     .grad = g.grad});
  }

 private:
  static void to_channel_words(const float* from, const towers::Row& shape, float* row) {
    const ImageTag d;
    const hn::RebindToUnsigned<ImageTag> words;
    auto* to = reinterpret_cast<uint32_t*>(row);
    const int64_t whole = shape.channels / 2 * 2;
    for (int64_t p = 0; p < shape.width + 2 * shape.pad;
         ++p, from += shape.channels * kImageLanes) {
      for (int64_t c = 0; c < whole; c += 2, to += kImageLanes)
        for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep) {
          const float* at = from + c * kImageLanes + lane;
          hn::Store(bfloat16_pair(d, hn::Load(d, at), hn::Load(d, at + kImageLanes)), words,
                    to + lane);
        }
      if (whole == shape.channels) continue;
      for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep)
        hn::Store(bfloat16_pair(d, hn::Load(d, from + whole * kImageLanes + lane), hn::Zero(d)),
                  words, to + lane);
      to += kImageLanes;
    }
  }

  // words [count][16] become columns: to[n row + i]
  static void turn(const uint32_t* block, int64_t count, uint32_t* to, int64_t row) {
    int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<uint32_t, 4> four;
    const hn::FixedTag<uint64_t, 2> two;
    const auto wide = [&](auto x) HWY_ATTR { return hn::BitCast(two, x); };
    for (; i + 4 <= count; i += 4)
      for (int64_t n = 0; n < kImageLanes; n += 4) {
        const uint32_t* from = block + i * kImageLanes + n;
        const auto a = hn::Load(four, from), b = hn::Load(four, from + kImageLanes);
        const auto c = hn::Load(four, from + 2 * kImageLanes);
        const auto e = hn::Load(four, from + 3 * kImageLanes);
        const auto ab = wide(hn::InterleaveLower(four, a, b));
        const auto ce = wide(hn::InterleaveLower(four, c, e));
        const auto more_ab = wide(hn::InterleaveUpper(four, a, b));
        const auto more_ce = wide(hn::InterleaveUpper(four, c, e));
        const auto store = [&](auto x, int64_t lane) HWY_ATTR {
          hn::StoreU(hn::BitCast(four, x), four, to + (n + lane) * row + i);
        };
        store(hn::InterleaveLower(two, ab, ce), 0), store(hn::InterleaveUpper(two, ab, ce), 1);
        store(hn::InterleaveLower(two, more_ab, more_ce), 2);
        store(hn::InterleaveUpper(two, more_ab, more_ce), 3);
      }
#endif
    for (; i < count; ++i)
      for (int64_t n = 0; n < kImageLanes; ++n) to[n * row + i] = block[i * kImageLanes + n];
  }

  float* rows_[2];
  Tiles tiles_;
  WindowTiles<Tiles> sums_;
};

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
