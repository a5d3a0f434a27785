// The product of packed weights with a panel, by tiles that stay in registers: what a layer's
// forward pass shares with the gradient of its inputs.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_KERNELS_DENSE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_DENSE_PRODUCT_INL_H_
#undef MAGLEV_KERNELS_DENSE_PRODUCT_INL_H_
#else
#define MAGLEV_KERNELS_DENSE_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/dense/dense.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// vectors of a tile's row: with 32 registers 6 x 4 sums, 4 vectors of the panel and a broadcast
// fit, with 16 registers 6 x 2
constexpr int kProductVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// how far ahead of their use weights are fetched, in floats: they come from the last cache
constexpr int64_t kProductAhead = 256;

struct PackedProduct {
  const float* weight;  // packed
  int64_t in, out;
  std::span<const DenseSegment> segments;
  int64_t stride, rows;
};

// An End says where a sum begins, end.begin(d, output), and takes it when it is done,
// end.end(d, output, lane, sum). Sums run over the inputs in order, so a lane's result is the same
// in any tile.
template <int kRows, int kVectors, class D, class End>
HWY_NOINLINE void product_tile(D d, const PackedProduct& p, int64_t o, int64_t c, const End& end) {
  using V = hn::Vec<D>;
  const int64_t lanes = int64_t(hn::Lanes(d)), stride = p.stride;
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const V start = end.begin(d, o + i < p.out ? o + i : o);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[i][v] = start;
  }
  const float* tile = p.weight + o / kDenseTile * kDenseTile * p.in + o % kDenseTile;
  for (const DenseSegment& segment : p.segments) {
    const float* w = tile + segment.first * kDenseTile;
    const float* x = segment.x + c;
    for (int64_t j = 0; j < segment.features; ++j, w += kDenseTile, x += stride) {
      V row[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, x + v * lanes);
      hwy::Prefetch(w + kProductAhead);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V factor = hn::Set(d, w[i]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(factor, row[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    if (o + i >= p.out) return;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) end.end(d, o + i, c + v * lanes, sum[i][v]);
  }
}

template <int kVectors, class D, class End>
HWY_INLINE void product_outputs(D d, const PackedProduct& p, int64_t o, int64_t c, const End& end) {
  // enough sums at once to hide the latency of a multiply-add
  constexpr int kRows = kVectors * int(kDenseTile) <= (HWY_TARGET <= HWY_AVX3 ? 24 : 12) ? 12 : 6;
  static_assert(kDenseTile % kRows == 0);
  for (int64_t i = 0; i < kDenseTile && o + i < p.out; i += kRows)
    product_tile<kRows, kVectors>(d, p, o + i, c, end);
}

/// Tile after tile of outputs, each over all lanes, so that its weights are read from far once.
template <class End>
void packed_product(const PackedProduct& p, const End& end) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), width = (p.rows + 15) / 16 * 16;
  for (int64_t o = 0; o < p.out; o += kDenseTile) {
    int64_t c = 0;
    for (; c + kProductVectors * lanes <= width; c += kProductVectors * lanes)
      product_outputs<kProductVectors>(d, p, o, c, end);
    // 3 vectors at once reach less than 2 and 1
    if constexpr (kProductVectors > 2)
      if (c + 2 * lanes <= width) product_outputs<2>(d, p, o, c, end), c += 2 * lanes;
    if (c < width) product_outputs<1>(d, p, o, c, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
