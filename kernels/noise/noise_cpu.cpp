#include "kernels/noise/noise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/noise/noise_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Philox blocks a pass computes; a block gives two numbers at even indices and two at odd ones
constexpr int64_t kPassBlocks = 8, kPassPairs = 2 * kPassBlocks;

// words of blocks counter, counter + 1, ...: those at even places and those at odd ones
void philox_words(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t* even, uint32_t* odd) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t b = 0; b < kPassBlocks; ++b) {
    const PhiloxBlock block = philox(seed, stream, counter + uint64_t(b));
    for (int64_t k = 0; k < 2; ++k)
      even[2 * b + k] = block.word[2 * k], odd[2 * b + k] = block.word[2 * k + 1];
  }
#else
  // a 64-bit lane is a block; upper halves hold rubbish on the way, products read the lower ones
  const hn::CappedTag<uint64_t, size_t(kPassBlocks)> wide;
  const hn::RepartitionToNarrow<decltype(wide)> words;
  const int64_t lanes = int64_t(hn::Lanes(wide));
  const auto times = [&](auto a, uint32_t factor) HWY_ATTR {
    return hn::MulEven(hn::BitCast(words, a), hn::Set(words, factor));
  };
  const auto store = [&](auto low, auto high, uint32_t* to) HWY_ATTR {
    const auto mask = hn::Set(wide, 0xffffffffu);
    const auto both = hn::Or(hn::And(low, mask), hn::ShiftLeft<32>(high));
    hn::Store(hn::BitCast(words, both), words, to);
  };
  for (int64_t b = 0; b < kPassBlocks; b += lanes) {
    auto c0 = hn::Iota(wide, counter + uint64_t(b)), c1 = hn::ShiftRight<32>(c0);
    auto c2 = hn::Set(wide, stream), c3 = hn::Set(wide, stream >> 32);
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = times(c0, 0xD2511F53u), p1 = times(c2, 0xCD9E8D57u);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(wide, k0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(wide, k1));
      c1 = p1, c3 = p0;
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    store(c0, c2, even + 2 * b);
    store(c1, c3, odd + 2 * b);
  }
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> to_uniform(D d, const uint32_t* words) {
  const hn::RebindToUnsigned<D> integers;
  const auto bits = hn::ShiftRight<9>(hn::Load(integers, words));
  const auto number = hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<D>(), bits));
  return (number + hn::Set(d, 0.5f)) * hn::Set(d, 1.f / 8388608.f);
}

template <bool kNormal>
void fill_row(const NoiseFill& fill, uint64_t stream, float* out) {
  const hn::CappedTag<float, size_t(kPassPairs)> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const uint64_t first = first_index(fill), end = first + uint64_t(fill.count);
  HWY_ALIGN uint32_t even_words[kPassPairs], odd_words[kPassPairs];
  HWY_ALIGN float part[2 * kPassPairs];
  for (uint64_t at = first & ~3ull; at < end; at += 2 * kPassPairs) {
    philox_words(fill.seed, stream, at / 4, even_words, odd_words);
    for (int64_t i = 0; i < kPassPairs; i += lanes) {
      auto even = to_uniform(d, even_words + i), odd = to_uniform(d, odd_words + i);
      if constexpr (kNormal) {
        const auto radius = hn::Sqrt(hn::Set(d, -2.f) * log_vector(d, even));
        auto sine = even, cosine = even;
        sine_cosine(d, hn::Set(d, 6.28318530717958648f) * odd, sine, cosine);
        even = radius * cosine, odd = radius * sine;
      }
      hn::StoreInterleaved2(even, odd, d, part + 2 * i);
    }
    const uint64_t from = std::max(at, first), to = std::min(at + 2 * kPassPairs, end);
    std::copy(part + (from - at), part + (to - at), out + (from - first));
  }
}

void fill_uniform(const NoiseFill& fill, float* out) {
  for (int64_t r = 0; r < fill.rows; ++r)
    fill_row<false>(fill, stream_of(fill, r), out + r * fill.count);
}

void fill_normal(const NoiseFill& fill, float* out) {
  for (int64_t r = 0; r < fill.rows; ++r)
    fill_row<true>(fill, stream_of(fill, r), out + r * fill.count);
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(fill_uniform);
HWY_EXPORT(fill_normal);

void noise_uniform_cpu(const NoiseFill& fill, float* out) {
  HWY_DYNAMIC_DISPATCH(fill_uniform)(fill, out);
}
void noise_normal_cpu(const NoiseFill& fill, float* out) {
  HWY_DYNAMIC_DISPATCH(fill_normal)(fill, out);
}

}  // namespace maglev
#endif
