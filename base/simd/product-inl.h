// Products of small matrices by tiles that stay in registers, for kernels of layers on panels.
// Included once per instruction set (hwy/foreach_target.h), hence no plain include guard.
#if defined(MAGLEV_BASE_SIMD_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_BASE_SIMD_PRODUCT_INL_H_
#undef MAGLEV_BASE_SIMD_PRODUCT_INL_H_
#else
#define MAGLEV_BASE_SIMD_PRODUCT_INL_H_
#endif

#include <cstdint>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// vectors of a tile's row: with 32 registers 6 x 4 sums, 4 vectors of B and a broadcast fit, with
// 16 registers 6 x 2
constexpr int kTileVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// steps of the depth that A is fetched ahead, where its columns are a cache line each and it does
// not lie in the first cache: 65 GFLOP/s without, 105 with it. Elsewhere it would cost a twentieth.
constexpr int64_t kAhead = 8, kNearBytes = 32 * 1024;

/// C = A B, by tiles that stay in registers: a row of C is `columns` floats; element (o, j) of A is
/// at a[o * a_row + j * a_column], row j of B at b + j * b_row. The depth may lie in several pieces
/// of `depth` each, one behind the other at equal distances.
struct Product {
  const float* a;
  int64_t a_row, a_column;
  const float* b;
  int64_t b_row;
  int64_t rows, columns, depth;
  int64_t pieces = 1, a_piece = 0, b_piece = 0;
};

// What becomes of C: an End says where a sum begins, end.begin(d, o), and takes it when it is done,
// end.end(d, o, c, sum). Sums run over the depth in order, so a lane's result is the same in any
// tile.

/// y = start + A B.
struct WriteSums {
  const float* start;
  int64_t start_step;
  float* y;
  int64_t stride;

  template <class D>
  HWY_INLINE hn::Vec<D> begin(D d, int64_t o) const {
    return hn::Set(d, start[o * start_step]);
  }
  template <class D>
  HWY_INLINE void end(D d, int64_t o, int64_t c, hn::Vec<D> sum) const {
    hn::Store(sum, d, y + o * stride + c);
  }
};

/// y = A B, or y += A B.
template <bool kAdd>
struct WritePanel {
  float* y;
  int64_t stride;

  template <class D>
  HWY_INLINE hn::Vec<D> begin(D d, int64_t) const {
    return hn::Zero(d);
  }
  template <class D>
  HWY_INLINE void end(D d, int64_t o, int64_t c, hn::Vec<D> sum) const {
    float* at = y + o * stride + c;
    hn::Store(kAdd ? hn::Load(d, at) + sum : sum, d, at);
  }
};

/// The same for the first `columns` of rows that lie `row` floats apart, aligned or not: rows of a
/// weight's gradient.
template <bool kAdd>
struct WriteRows {
  float* grad;
  int64_t row, columns;

  template <class D>
  HWY_INLINE hn::Vec<D> begin(D d, int64_t) const {
    return hn::Zero(d);
  }
  template <class D>
  HWY_INLINE void end(D d, int64_t o, int64_t c, hn::Vec<D> sum) const {
    float* at = grad + o * row + c;
    if (c + int64_t(hn::Lanes(d)) <= columns)
      return hn::StoreU(kAdd ? hn::LoadU(d, at) + sum : sum, d, at);
    HWY_ALIGN float part[hn::MaxLanes(d)];
    hn::Store(sum, d, part);
    for (int64_t k = c; k < columns; ++k) at[k - c] = kAdd ? at[k - c] + part[k - c] : part[k - c];
  }
};

template <int kRows, int kVectors, bool kFetch, class D, class End>
HWY_INLINE void tile(D d, const Product& p, int64_t o, int64_t c, const End& end) {
  using V = hn::Vec<D>;
  const int64_t lanes = int64_t(hn::Lanes(d));
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const V start = end.begin(d, o + i);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[i][v] = start;
  }
  const int64_t a_row = p.a_row, a_column = p.a_column, b_row = p.b_row;
  for (int64_t piece = 0; piece < p.pieces; ++piece) {
    const float* a = p.a + piece * p.a_piece + o * a_row;
    const float* b = p.b + piece * p.b_piece + c;
    for (int64_t j = 0; j < p.depth; ++j, a += a_column, b += b_row) {
      if constexpr (kFetch) {
        hwy::Prefetch(a + kAhead * a_column);
        hwy::Prefetch(a + kAhead * a_column + (kRows - 1) * a_row);
      }
      V row[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V factor = hn::Set(d, a[i * a_row]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(factor, row[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) end.end(d, o + i, c + v * lanes, sum[i][v]);
}

// all rows from `o` on of kVectors vectors of columns
template <int kVectors, bool kFetch, class D, class End>
HWY_NOINLINE void strip_of(D d, const Product& p, int64_t o, int64_t c, const End& end) {
  // enough sums at once to hide the latency of a multiply-add
  constexpr int kMost = kVectors == 1 ? 8 : 6;
  for (; o + kMost <= p.rows; o += kMost) tile<kMost, kVectors, kFetch>(d, p, o, c, end);
  if (o + 4 <= p.rows) tile<4, kVectors, kFetch>(d, p, o, c, end), o += 4;
  if (o + 2 <= p.rows) tile<2, kVectors, kFetch>(d, p, o, c, end), o += 2;
  if (o < p.rows) tile<1, kVectors, kFetch>(d, p, o, c, end);
}
template <int kVectors, class D, class End>
HWY_INLINE void strip(D d, const Product& p, int64_t o, int64_t c, const End& end) {
  const bool far = p.a_column > 1 && p.rows * p.depth * int64_t(sizeof(float)) > kNearBytes;
  if (far) strip_of<kVectors, true>(d, p, o, c, end);
  else strip_of<kVectors, false>(d, p, o, c, end);
}

// rows from `o` on, columns from `c` on
template <class D, class End>
void strips(D d, const Product& p, int64_t o, int64_t c, const End& end) {
  const int64_t lanes = int64_t(hn::Lanes(d));
  if constexpr (kTileVectors == 4)
    for (; c + 3 * lanes < p.columns; c += 4 * lanes) strip<4>(d, p, o, c, end);
  for (; c + lanes < p.columns; c += 2 * lanes) strip<2>(d, p, o, c, end);
  if (c < p.columns) strip<1>(d, p, o, c, end);
}

// kRows rows from `o` on by tiles of kVectors vectors, and what is left by narrower ones
template <int kRows, int kVectors, class D, class End>
HWY_NOINLINE void wide_rows(D d, Product p, int64_t o, const End& end) {
  const int64_t lanes = int64_t(hn::Lanes(d));
  p.rows = o + kRows;
  int64_t c = 0;
  for (; c + (kVectors - 1) * lanes < p.columns; c += kVectors * lanes)
    tile<kRows, kVectors, false>(d, p, o, c, end);
  strips(d, p, o, c, end);
}

template <class D, class End>
void multiply_with(D d, const Product& p, const End& end) {
  // the last one to three rows, of which narrow tiles have too few sums at once
  Product most = p;
  const int64_t last = p.rows % 6 % 4;
  most.rows -= last;
  if (most.rows > 0) strips(d, most, 0, 0, end);
  if (last & 2) wide_rows<2, 4>(d, p, most.rows, end);
  if (last & 1) wide_rows<1, 8>(d, p, p.rows - 1, end);
}

// at most kColumns columns: one vector where it holds them
template <size_t kColumns, class End>
HWY_INLINE void multiply_few(const Product& p, const End& end) {
  const hn::CappedTag<float, kColumns> d;
  if constexpr (hn::MaxLanes(hn::CappedTag<float, kColumns>()) < kColumns) multiply_with(d, p, end);
  else if (p.columns > 0) strip<1>(d, p, 0, 0, end);
}

// few columns take narrower vectors, which cost half
template <class End>
void multiply(const Product& p, const End& end) {
  const hn::ScalableTag<float> d;
  if (p.columns <= 4) multiply_few<4>(p, end);
  else if (p.columns <= 8) multiply_few<8>(p, end);
  else multiply_with(d, p, end);
}

#if HWY_TARGET != HWY_SCALAR
// blocks of four floats of v, each four rows further down
template <class D>
HWY_INLINE void store_blocks(D d, hn::Vec<D> v, float* to, int64_t row) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_blocks(half, hn::LowerHalf(half, v), to, row);
    store_blocks(half, hn::UpperHalf(half, v), to + int64_t(hn::MaxLanes(half)) * row, row);
  }
}
#endif

/// x [in][stride] -> to [rows][width]; rows is a multiple of 4, width at least in. Rows up to the
/// next multiple of kMost may be written besides.
template <size_t kMost = 16>
HWY_INLINE void transpose(const float* x, int64_t in, int64_t stride, int64_t rows, float* to,
                          int64_t width) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  // as many rows at once as a vector has lanes; turned within each block of four
  const hn::CappedTag<float, kMost> d;
  const hn::RepartitionToWide<decltype(d)> pairs;
  for (; k + 4 <= in; k += 4)
    for (int64_t r = 0; r < rows; r += int64_t(hn::Lanes(d))) {
      const float* from = x + k * stride + r;
      const auto x0 = hn::LoadU(d, from), x1 = hn::LoadU(d, from + stride);
      const auto x2 = hn::LoadU(d, from + 2 * stride), x3 = hn::LoadU(d, from + 3 * stride);
      const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, x0, x1));
      const auto b = hn::BitCast(pairs, hn::InterleaveLower(d, x2, x3));
      const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, x0, x1));
      const auto f = hn::BitCast(pairs, hn::InterleaveUpper(d, x2, x3));
      float* block = to + r * width + k;
      store_blocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, a, b)), block, width);
      store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)), block + width, width);
      store_blocks(d, hn::BitCast(d, hn::InterleaveLower(pairs, e, f)), block + 2 * width, width);
      store_blocks(d, hn::BitCast(d, hn::InterleaveUpper(pairs, e, f)), block + 3 * width, width);
    }
#endif
  for (int64_t left = HWY_TARGET == HWY_SCALAR ? in : in % 4; left > 0; --left, ++k)
    for (int64_t r = 0; r < rows; ++r) to[r * width + k] = x[k * stride + r];
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
