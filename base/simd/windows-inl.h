// Convolutions of images in lanes (windows.h): sums over windows, and the gradients of their
// weights. The kernel's columns and the channels lie one behind another in memory, for the window
// as for the weights, so a row of a window is one run of `depth` numbers. Included once per
// instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_BASE_SIMD_WINDOWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_WINDOWS_INL_H_
#undef MAGLEV_BASE_SIMD_WINDOWS_INL_H_
#else
#define MAGLEV_BASE_SIMD_WINDOWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "base/simd/sum-inl.h"
#include "base/simd/windows.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ImageTag = hn::CappedTag<float, kImageLanes>;
using ImageVector = hn::Vec<ImageTag>;
constexpr int64_t kImageStep = int64_t(hn::MaxLanes(ImageTag()));

// with 32 registers 8 x 3 sums and what they are made of fit, with 16 registers 4 x 3
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;

/// One row of places: y[p][o] = start[o] + sum over r < rows and j < depth of
/// weight[o][r][j] x[r x_row + p x_place + j 16].
struct Windows {
  const float* x;  ///< where the first row of place 0's window begins
  int64_t x_row, x_place;
  int64_t rows, depth;
  const float* weight;   ///< [blocks of outputs][rows of the kernel][depth][kOutBlock]
  int64_t weight_block;  ///< floats of a block: with all rows of the kernel
  const float* start;    ///< [whole_blocks(outs)]
  int64_t places, outs;
  float* y;  ///< output o of place p at y[p y_place + o 16], from `half` on `below` further
  int64_t y_place;
  int64_t half, below;
  bool relu = false;  ///< what is below 0 becomes 0; what is no number stays
};

// kBlocks * 4 outputs at kPlaces places from (o, p) on. Sums run over the window in order, so they
// are the same in any tile.
template <int kBlocks, int kPlaces>
HWY_INLINE void window_tile(const Windows& w, int64_t o, int64_t p) {
  constexpr int kOuts = kBlocks * int(kOutBlock);
  const ImageTag d;
  for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep) {
    ImageVector sum[kOuts][kPlaces];
#pragma GCC unroll 16
    for (int i = 0; i < kOuts; ++i)
#pragma GCC unroll 16
      for (int v = 0; v < kPlaces; ++v) sum[i][v] = hn::Set(d, w.start[o + i]);
    const float* row = w.x + p * w.x_place + lane;
    const float* weight = w.weight + o / kOutBlock * w.weight_block;
    const int64_t block = w.weight_block, place = w.x_place;
    for (int64_t r = 0; r < w.rows; ++r, row += w.x_row) {
      const float* x = row;
      for (int64_t j = 0; j < w.depth; ++j, x += kImageLanes, weight += kOutBlock) {
        ImageVector at[kPlaces];
#pragma GCC unroll 16
        for (int v = 0; v < kPlaces; ++v) at[v] = hn::Load(d, x + v * place);
#pragma GCC unroll 16
        for (int i = 0; i < kOuts; ++i) {
          const auto factor = hn::Set(d, weight[i / kOutBlock * block + i % kOutBlock]);
#pragma GCC unroll 16
          for (int v = 0; v < kPlaces; ++v) sum[i][v] = hn::MulAdd(factor, at[v], sum[i][v]);
        }
      }
    }
    if (w.relu)
#pragma GCC unroll 16
      for (int i = 0; i < kOuts; ++i)
#pragma GCC unroll 16
        for (int v = 0; v < kPlaces; ++v)
          sum[i][v] = hn::IfThenElse(sum[i][v] < hn::Zero(d), hn::Zero(d), sum[i][v]);
#pragma GCC unroll 16
    for (int i = 0; i < kOuts; ++i)
      if (o + i < w.outs)
#pragma GCC unroll 16
        for (int v = 0; v < kPlaces; ++v)
          hn::Store(sum[i][v], d,
                    w.y + (p + v) * w.y_place + (o + i) * kImageLanes +
                        (o + i < w.half ? 0 : w.below) + lane);
  }
}

// all places of kBlocks blocks of outputs, kPlaces at a time; what is left in tiles as even as can
// be
template <int kBlocks, int kPlaces>
HWY_NOINLINE void window_strip(const Windows& w, int64_t o, int64_t p) {
  if constexpr (kPlaces == 1) {
    for (; p < w.places; ++p) window_tile<kBlocks, 1>(w, o, p);
  } else {
    for (; p + 2 * kPlaces - 1 <= w.places || p + kPlaces == w.places; p += kPlaces)
      window_tile<kBlocks, kPlaces>(w, o, p);
    if (p < w.places) window_strip<kBlocks, kPlaces - 1>(w, o, p);
  }
}

HWY_INLINE void sum_windows(const Windows& w) {
  int64_t o = 0;
  if constexpr (kManyRegisters) {
    for (; o + kOutBlock < w.outs; o += 2 * kOutBlock) window_strip<2, 3>(w, o, 0);
    if (o < w.outs) window_strip<1, 6>(w, o, 0);
  } else {
    for (; o < w.outs; o += kOutBlock) window_strip<1, 3>(w, o, 0);
  }
}

/// Gradients of the weights of such windows over rows [first, last) of places:
/// grad[r][k][c][o] += sum over places and images of dz[o] x[r][k][c]. Rows of windows lie beyond
/// an image at its upper and lower end: those do not count.
struct WindowGrads {
  const float* x;  ///< row 0 of the image, where place 0's window begins
  int64_t x_row, x_place;
  int64_t above;    ///< rows of the window above its place
  const float* dz;  ///< of row `first` and its first place
  int64_t dz_row, dz_place;
  int64_t height, places, first, last;
  int64_t rows, columns, channels, outs;  ///< of the kernel: 5 or 3 columns
  float* grad;                            ///< [rows][columns][channels][outs]
};

// kOuts outputs, and all of kColumns columns of kChannels channels: what a column reads, the next
// one reads a place later, so all but one are in the nearest cache
template <int kOuts, int kColumns, int kChannels>
HWY_NOINLINE void window_grad_tile(const WindowGrads& g, int64_t r, int64_t c, int64_t o) {
  const ImageTag d;
  HWY_ALIGN float sums[kColumns][kChannels][kOuts][kImageLanes];
  // row y of places sees row y + r - above of the image
  const int64_t from = std::max(g.first, g.above - r);
  const int64_t to = std::min(g.last, g.height + g.above - r);
  for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep) {
    ImageVector sum[kColumns][kChannels][kOuts];
#pragma GCC unroll 16
    for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 16
      for (int n = 0; n < kChannels; ++n)
#pragma GCC unroll 16
        for (int i = 0; i < kOuts; ++i) sum[k][n][i] = hn::Zero(d);
    const int64_t place = g.x_place;
    for (int64_t y = from; y < to; ++y) {
      const float* x = g.x + (y + r - g.above) * g.x_row + c * kImageLanes + lane;
      const float* dz = g.dz + (y - g.first) * g.dz_row + o * kImageLanes + lane;
      for (int64_t p = 0; p < g.places; ++p, x += place, dz += g.dz_place) {
        ImageVector slope[kOuts];
#pragma GCC unroll 16
        for (int i = 0; i < kOuts; ++i) slope[i] = hn::Load(d, dz + i * kImageLanes);
#pragma GCC unroll 16
        for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 16
          for (int n = 0; n < kChannels; ++n) {
            const auto at = hn::Load(d, x + k * place + n * kImageLanes);
#pragma GCC unroll 16
            for (int i = 0; i < kOuts; ++i) sum[k][n][i] = hn::MulAdd(slope[i], at, sum[k][n][i]);
          }
      }
    }
#pragma GCC unroll 16
    for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 16
      for (int n = 0; n < kChannels; ++n)
#pragma GCC unroll 16
        for (int i = 0; i < kOuts; ++i) hn::Store(sum[k][n][i], d, sums[k][n][i] + lane);
  }
  for (int k = 0; k < kColumns; ++k)
    for (int n = 0; n < kChannels; ++n) {
      PartedSum<float, int(kImageLanes)> over_images[kOuts];
      for (int i = 0; i < kOuts; ++i) over_images[i].add(sums[k][n][i], kImageLanes);
      const int64_t weight = (r * g.columns + k) * g.channels + c + n;
      add_folded(over_images, g.grad + weight * g.outs + o);
    }
}

template <int kOuts, int kColumns, int kChannels>
HWY_INLINE void window_grad_outs(const WindowGrads& g) {
  for (int64_t o = 0; o < g.outs; o += kOuts)
    for (int64_t r = 0; r < g.rows; ++r)
      for (int64_t c = 0; c < g.channels; c += kChannels)
        window_grad_tile<kOuts, kColumns, kChannels>(g, r, c, o);
}

// as many outputs at once as divide them and registers hold
template <int kColumns, int kChannels>
HWY_INLINE void window_grad_columns(const WindowGrads& g) {
  constexpr int kFour = kManyRegisters ? 4 : 2, kThree = kManyRegisters ? 3 : 1;
  if (g.outs % kFour == 0) window_grad_outs<kFour, kColumns, kChannels>(g);
  else if (g.outs % kThree == 0) window_grad_outs<kThree, kColumns, kChannels>(g);
  else if (g.outs % 2 == 0) window_grad_outs<2, kColumns, kChannels>(g);
  else window_grad_outs<1, kColumns, kChannels>(g);
}

HWY_INLINE void add_window_grads(const WindowGrads& g) {
  if (g.columns == 5) window_grad_columns<5, 1>(g);
  else if (g.channels % 2 == 0) window_grad_columns<3, 2>(g);
  else window_grad_columns<3, 1>(g);
}

// rows [images][features] to [feature][16], zeros where there is no image, and back
HWY_INLINE void rows_to_lanes(const float* rows, int64_t row, int64_t images, int64_t features,
                              float* to) {
  for (int64_t f = 0; f < features; ++f)
    for (int64_t n = 0; n < kImageLanes; ++n)
      to[f * kImageLanes + n] = n < images ? rows[n * row + f] : 0.f;
}
HWY_INLINE void lanes_to_rows(const float* from, int64_t images, int64_t features, float* rows,
                              int64_t row) {
  for (int64_t n = 0; n < images; ++n)
    for (int64_t f = 0; f < features; ++f) rows[n * row + f] = from[f * kImageLanes + n];
}

// sets what lies left and right of a row's places to 0
HWY_INLINE void clear_sides(float* row, int64_t floats, int64_t sides) {
  std::fill_n(row, sides, 0.f);
  std::fill_n(row + floats - sides, sides, 0.f);
}

// rows of an image that a window of `rows` rows, `above` of them above row y, sees
struct Seen {
  int64_t first, count, cut;  // cut: rows of the window above the image
};
HWY_INLINE Seen seen_rows(int64_t y, int64_t above, int64_t rows, int64_t height) {
  const int64_t first = std::max<int64_t>(0, y - above);
  return {first, std::min(height, y - above + rows) - first, first - (y - above)};
}

// what the lanes of sums [count][16] come to, added to `to` [count]
HWY_INLINE void add_lanes(const float* sums, int64_t count, float* to) {
  for (int64_t c = 0; c < count; ++c) {
    PartedSum<float, int(kImageLanes)> over_images[1];
    over_images[0].add(sums + c * kImageLanes, kImageLanes);
    add_folded(over_images, to + c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
