// Words of bfloat16 pairs: panels and weights made from f32, and the ends of layers that give them.
// Eight bits are kept, so exponentials and quotients are made to fourteen.
#include <algorithm>

#include "base/core/bfloat16.h"
#include "base/core/error.h"
#include "kernels/dense/dense_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense/dense_pairs_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/order-inl.h"
#include "base/simd/pairs-inl.h"
#include "base/simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// exp(x) within 8e-5 of itself, x cut to [-87, 20].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V rough_exp(D d, V x) {
  const hn::RebindToSigned<D> integers;
  const V power =
      hn::Set(d, 1.44269504f) * larger_of(smaller_of(x, hn::Set(d, 20.f)), hn::Set(d, -87.f));
  // adding 1.5 * 2^23 rounds to an integer, which the low bits then hold
  const V magic = hn::Set(d, 12582912.f), shifted = power + magic;
  const V f = power - (shifted - magic);
  // minimax polynomial of 2^f for |f| <= 1/2
  V p = hn::MulAdd(hn::Set(d, 0.0551715381f), f, hn::Set(d, 0.242612079f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693261087f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.999927998f));
  return hn::BitCast(d,
                     hn::BitCast(integers, p) + hn::ShiftLeft<23>(hn::BitCast(integers, shifted)));
}

// LayerNorm of a feature: (x * rstd + offset) * gain + shift, offset = -mean * rstd
template <int kVectors, class D>
struct Normalised {
  const DensePairsEnd& a;
  int64_t c;
  hn::Vec<D> rstd[kVectors], offset[kVectors];

  HWY_INLINE hn::Vec<D> operator()(D d, int64_t f, int v) const {
    const auto x = hn::Load(d, a.sums + f * a.stride + c + v * int64_t(hn::Lanes(d)));
    const auto xhat = hn::MulAdd(x, rstd[v], offset[v]);
    return hn::MulAdd(xhat, hn::Set(d, a.gain[f]), hn::Set(d, a.shift[f]));
  }
};

template <int kVectors, class D>
HWY_NOINLINE void end_strip(D d, const DensePairsEnd& a, int64_t c) {
  using V = hn::Vec<D>;
  const hn::RebindToUnsigned<D> words;
  const int64_t lanes = int64_t(hn::Lanes(d));
  Normalised<kVectors, D> normalised{.a = a, .c = c};
  // moments of the sums
  V total[kVectors], square[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = square[v] = hn::Zero(d);
  for (int64_t f = 0; f < a.out; ++f)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const V x = hn::Load(d, a.sums + f * a.stride + c + v * lanes);
      total[v] = total[v] + x;
      square[v] = hn::MulAdd(x, x, square[v]);
    }
  const V share = hn::Set(d, 1.f / float(a.out));
  for (int v = 0; v < kVectors; ++v) {
    const V mean = total[v] * share;
    const V variance = larger_of(hn::NegMulAdd(mean, mean, square[v] * share), hn::Zero(d));
    normalised.rstd[v] = hn::Set(d, 1.f) / hn::Sqrt(variance + hn::Set(d, kLayerNormEps));
    normalised.offset[v] = hn::Neg(mean) * normalised.rstd[v];
  }
  if (a.end == DenseEnd::mish) {
    const auto mish = [&](int64_t f, int v) HWY_ATTR {
      // x tanh(softplus(x)) = x n / (n + 2), n = e^x (e^x + 2)
      const V x = normalised(d, f, v), w = rough_exp(d, x), two = hn::Set(d, 2.f);
      const V n = w * (w + two);
      return x * n * hn::ApproximateReciprocal(n + two);
    };
    for (int64_t f = 0; f < a.out; f += 2)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        hn::Store(bfloat16_pair(d, mish(f, v), mish(f + 1, v)), words,
                  a.y + f / 2 * a.stride + c + v * lanes);
    return;
  }
  for (int64_t f = 0; f < a.out; f += kSimNormGroup)
    for (int v = 0; v < kVectors; ++v) {
      V x[kSimNormGroup];
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; ++k) x[k] = normalised(d, f + k, v);
      V largest = x[0], total = hn::Zero(d);
#pragma GCC unroll 8
      for (int64_t k = 1; k < kSimNormGroup; ++k) largest = larger_of(largest, x[k]);
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; ++k) {
        x[k] = rough_exp(d, x[k] - largest);
        total = total + x[k];
      }
      const V scale = hn::ApproximateReciprocal(total);
#pragma GCC unroll 8
      for (int64_t k = 0; k < kSimNormGroup; k += 2)
        hn::Store(bfloat16_pair(d, x[k] * scale, x[k + 1] * scale), words,
                  a.y + (f + k) / 2 * a.stride + c + v * lanes);
    }
}

void end_to_pairs(const DensePairsEnd& a) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = int64_t(hn::Lanes(d)), width = (a.rows + 15) / 16 * 16;
  int64_t c = 0;
  for (; c + 4 * lanes <= width; c += 4 * lanes) end_strip<4>(d, a, c);
  for (; c + 2 * lanes <= width; c += 2 * lanes) end_strip<2>(d, a, c);
  for (; c < width; c += lanes) end_strip<1>(d, a, c);
}

void to_pairs(const float* x, int64_t features, int64_t stride, int64_t rows, uint32_t* pairs) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  for (int64_t f = 0; f < features; f += 2)
    for (int64_t c = 0; c < (rows + 15) / 16 * 16; c += int64_t(hn::Lanes(d))) {
      const auto even = hn::Load(d, x + f * stride + c);
      const auto odd = f + 1 < features ? hn::Load(d, x + (f + 1) * stride + c) : hn::Zero(d);
      hn::Store(bfloat16_pair(d, even, odd), words, pairs + f / 2 * stride + c);
    }
}

// words j to j + kPairBlock of output o: a row of a block
HWY_INLINE void pack_row(const DensePackBf16& a, int64_t o, int64_t j) {
  const float* w = a.weight + o * a.out_step;
  uint32_t* to = a.packed + pair_place(o, a.first + j, a.pairs);
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> bits;
  const int64_t lanes = int64_t(hn::Lanes(d));
  if (o < a.out && 2 * (j + kPairBlock) <= a.in)
    for (; k < kPairBlock; k += lanes) {
      const float* from = w + 2 * (j + k);
      const auto low = hn::LoadU(d, from), high = hn::LoadU(d, from + lanes);
      hn::Store(bfloat16_neighbours(d, low, high), bits, to + k);
    }
#endif
  // zeros where there is no output or input
  for (; k < kPairBlock; ++k) {
    const auto half = [&](int64_t i) {
      return o < a.out && i < a.in ? uint32_t(bfloat16_bits(w[i])) : 0u;
    };
    to[k] = half(2 * (j + k)) | half(2 * (j + k) + 1) << 16;
  }
}

// inputs side by side: a block after another, while the rows of the next ones below are fetched
void pack_straight(const DensePackBf16& a) {
  const int64_t words = whole_pair_blocks((a.in + 1) / 2), rows = whole_pair_blocks(a.out);
  for (int64_t block = 0; block < rows; block += kPairBlock)
    for (int64_t j = 0; j < words; j += kPairBlock)
      for (int64_t o = block; o < block + kPairBlock; ++o) {
        if (o + kPairBlock < a.out)
          for (int64_t line = 0; line < 2 * kPairBlock; line += kPairBlock)
            hwy::Prefetch(a.weight + (o + kPairBlock) * a.out_step + 2 * j + line);
        pack_row(a, o, j);
      }
}

// the transpose: neighbours along the depth lie a row of weights apart
void pack_across(const DensePackBf16& a) {
  const int64_t words = (a.in + 1) / 2;
  const hn::CappedTag<float, 16> d;
  // words of a block as they are made, one of 16 outputs after another; moved as if they were f32
  HWY_ALIGN float made[kPairBlock * kPairBlock];
  HWY_ALIGN float rows[2][kPairBlock];
  for (int64_t o = 0; o < a.out; o += kPairBlock) {
    const int64_t outputs = std::min(kPairBlock, a.out - o);
    for (int64_t j = 0; j < whole_pair_blocks(words); j += kPairBlock) {
      for (int64_t k = 0; k < kPairBlock; ++k) {
        const float* pair[2];
        for (int64_t half : {0, 1}) {
          const int64_t i = 2 * (j + k) + half;
          pair[half] = a.weight + i * a.in_step + o;
          if (i < a.in && outputs == kPairBlock) continue;
          // zeros where there is no output or input
          for (int64_t n = 0; n < kPairBlock; ++n)
            rows[half][n] = i < a.in && n < outputs ? pair[half][n] : 0.f;
          pair[half] = rows[half];
        }
        for (int64_t n = 0; n < kPairBlock; n += int64_t(hn::Lanes(d))) {
          const auto word = bfloat16_pair(d, hn::LoadU(d, pair[0] + n), hn::LoadU(d, pair[1] + n));
          hn::Store(hn::BitCast(d, word), d, made + k * kPairBlock + n);
        }
      }
      transpose(made, kPairBlock, kPairBlock, kPairBlock,
                reinterpret_cast<float*>(a.packed + pair_place(o, a.first + j, a.pairs)),
                kPairBlock);
    }
  }
}

void pack(const DensePackBf16& a) {
  if (a.in_step == 1) pack_straight(a);
  else pack_across(a);
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(pack);
HWY_EXPORT(end_to_pairs);
HWY_EXPORT(to_pairs);

void dense_pairs_end_cpu(const DensePairsEnd& args) { HWY_DYNAMIC_DISPATCH(end_to_pairs)(args); }
void pack_dense_bf16(const DensePackBf16& args) {
  MAGLEV_ASSERT(args.first % kPairBlock == 0 && (args.in_step == 1 || args.out_step == 1),
                "weights or their transpose, from a whole block on");
  HWY_DYNAMIC_DISPATCH(pack)(args);
}
void panel_to_pairs(const float* x, int64_t features, int64_t stride, int64_t rows,
                    uint32_t* pairs) {
  HWY_DYNAMIC_DISPATCH(to_pairs)(x, features, stride, rows, pairs);
}

}  // namespace maglev
#endif
