#include "kernels/dense_grad/dense_grad_bf16.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense_grad/dense_grad_bf16_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/core/bfloat16.h"
#include "base/simd/pairs-inl.h"
#include "base/simd/product-inl.h"
#include "base/simd/sum-inl.h"
#include "base/trace/span.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums over a panel's rows are kept in this many parts, as in dense_grad_cpu.cpp
constexpr int kBiasParts = 16;

// 2 * kWords rows of output o as words
template <int64_t kWords>
HWY_INLINE void pair_rows(const float* dz, uint32_t* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t k = 0; k < kWords; ++k)
    to[k] = uint32_t(bfloat16_bits(dz[2 * k])) | uint32_t(bfloat16_bits(dz[2 * k + 1])) << 16;
#else
  const hn::CappedTag<float, size_t(kWords)> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t k = 0; k < kWords; k += lanes)
    hn::Store(bfloat16_neighbours(d, hn::Load(d, dz + 2 * k), hn::Load(d, dz + 2 * k + lanes)),
              hn::RebindToUnsigned<decltype(d)>(), to + k);
#endif
}

void grad_pairs(const DenseGradPairs& a) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const int64_t lanes = int64_t(hn::Lanes(d)), row_words = a.stride / 2;
  for (int64_t o = 0; o < a.out; o += 2) {
    const float* dz = a.dz + o * a.stride;
    const bool both = o + 1 < a.out;
    for (int64_t c = 0; c < a.stride && a.pairs; c += lanes)
      hn::Store(bfloat16_pair(d, hn::Load(d, dz + c),
                              both ? hn::Load(d, dz + a.stride + c) : hn::Zero(d)),
                words, a.pairs + o / 2 * a.stride + c);
    for (int64_t i = o; i < std::min(o + 2, a.out); ++i, dz += a.stride) {
      if (a.rows) {
        // a row of a block at once, and what is half of one
        int64_t c = 0;
        for (; c + 32 <= a.stride; c += 32)
          pair_rows<16>(dz + c, a.rows + pair_place(i, c / 2, row_words));
        if (c < a.stride) pair_rows<8>(dz + c, a.rows + pair_place(i, c / 2, row_words));
      }
      if (!a.d_bias) continue;
      PartedSum<float, kBiasParts> sum;
      sum.add(dz, a.stride);
      a.d_bias[i] += sum.fold();
    }
  }
  if (!a.rows) return;
  // where a block goes on behind the outputs or the rows there are zeros
  for (int64_t i = 0; i < whole_pair_blocks(a.out); ++i)
    for (int64_t k = i < a.out ? row_words : 0; k < whole_pair_blocks(row_words); k += 8)
      std::fill_n(a.rows + pair_place(i, k, row_words), 8, 0u);
}

#if HWY_TARGET != HWY_SCALAR
// A word of features (f, f + 1) at row r and the one at row r + 1 become words of rows (r, r + 1)
// at f and at f + 1: as an element of 64 bits, its halves of halves in the middle change places.
template <class D>
HWY_INLINE hn::Vec<D> pair_rows_of_features(D d, hn::Vec<D> x) {
  const auto outer = hn::And(x, hn::Set(d, 0xFFFF00000000FFFFull));
  const auto up = hn::And(hn::ShiftLeft<16>(x), hn::Set(d, 0x0000FFFF00000000ull));
  const auto down = hn::And(hn::ShiftRight<16>(x), hn::Set(d, 0x00000000FFFF0000ull));
  return hn::Or(outer, hn::Or(up, down));
}
#endif

// pairs of features j and j + 1 of all rows, as four columns; the second may be null
void four_columns(const uint32_t* first, const uint32_t* second, int64_t stride, uint32_t* to,
                  int64_t width) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t r = 0; r < stride; r += 2, to += width)
    for (const uint32_t* x : {first, second}) {
      const uint32_t here = x ? x[r] : 0, next = x ? x[r + 1] : 0;
      uint32_t* two = to + (x == first ? 0 : 2);
      two[0] = (here & 0xFFFFu) | next << 16;
      two[1] = here >> 16 | (next & 0xFFFF0000u);
    }
#else
  const hn::CappedTag<uint32_t, 16> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const hn::RebindToFloat<decltype(d)> floats;
  for (int64_t r = 0; r < stride;
       r += int64_t(hn::Lanes(d)), to += int64_t(hn::Lanes(wide)) * width) {
    const auto a = pair_rows_of_features(wide, hn::BitCast(wide, hn::Load(d, first + r)));
    const auto zero = hn::Zero(wide);
    const auto b =
        second ? pair_rows_of_features(wide, hn::BitCast(wide, hn::Load(d, second + r))) : zero;
    // four neighbours are a block: of even pairs of rows, and of odd ones; store_blocks counts four
    // rows a block, here there are two
    store_blocks(floats, hn::BitCast(floats, hn::InterleaveLower(wide, a, b)),
                 reinterpret_cast<float*>(to), width / 2);
    store_blocks(floats, hn::BitCast(floats, hn::InterleaveUpper(wide, a, b)),
                 reinterpret_cast<float*>(to + width), width / 2);
  }
#endif
}

void to_columns(const DenseColumnsBf16& a) {
  const int64_t pairs = (a.in + 1) / 2;
  for (int64_t f = 0; f < a.in; f += kColumnBlock) {
    const int64_t width = (std::min(kColumnBlock, a.in - f) + 15) / 16 * 16;
    uint32_t* columns = a.columns + f * a.stride / 2;
    for (int64_t j = f / 2; j < std::min(pairs, (f + kColumnBlock) / 2); j += 2)
      four_columns(a.x + j * a.stride, j + 1 < pairs ? a.x + (j + 1) * a.stride : nullptr, a.stride,
                   columns + 2 * j - f, width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(grad_pairs);
HWY_EXPORT(to_columns);

void dense_grad_pairs_cpu(const DenseGradPairs& args) {
  const auto span = trace::kernel("dense_grad_pairs");
  HWY_DYNAMIC_DISPATCH(grad_pairs)(args);
}
void dense_columns_bf16_cpu(const DenseColumnsBf16& args) {
  const auto span = trace::kernel("dense_columns_bf16");
  HWY_DYNAMIC_DISPATCH(to_columns)(args);
}

void dense_input_grad_bf16_cpu(const DenseInputGradBf16& a) {
  const auto span = trace::kernel("dense_input_grad_bf16", 2 * a.features * a.out * a.stride);
  const int64_t pairs = (a.out + 1) / 2;
  const PairPiece piece{a.weight + pair_place(a.first, 0, pairs), a.dz, pairs};
  multiply_pairs({.pieces = {&piece, 1},
                  .a_rows = pair_blocks_size(kPairBlock, pairs),
                  .b_row = a.stride,
                  .rows = a.features,
                  .columns = a.stride,
                  .add = a.add,
                  .y = a.dx,
                  .y_row = a.stride});
}

void dense_weight_grad_bf16_cpu(const DenseWeightGradBf16& a) {
  const auto span =
      trace::kernel("dense_weight_grad_bf16", 2 * a.in * a.count * a.panels * a.stride);
  // panels whose inputs of one block stay in a core's second cache beside the gradients: 8 KiB each
  constexpr int64_t kAtOnce = 48;
  const int64_t words = a.stride / 2;
  // the first panels write, later ones add
  for (int64_t panel = 0; panel < a.panels; panel += kAtOnce)
    for (int64_t f = 0; f < a.in; f += kColumnBlock) {
      const int64_t features = std::min(kColumnBlock, a.in - f);
      std::array<PairPiece, kAtOnce> pieces;
      size_t count = 0;
      for (int64_t p = panel; p < std::min(a.panels, panel + kAtOnce); ++p)
        pieces[count++] = {a.dz + p * a.dz_step + pair_place(a.first, 0, words),
                           a.columns + p * a.columns_step + f * words, words};
      multiply_pairs({.pieces = {pieces.data(), count},
                      .a_rows = pair_blocks_size(kPairBlock, words),
                      .b_row = (features + 15) / 16 * 16,
                      .rows = a.count,
                      .columns = features,
                      .add = a.add || panel > 0,
                      .y = a.d_weight + a.first * a.in + f,
                      .y_row = a.in});
    }
}

}  // namespace maglev
#endif
