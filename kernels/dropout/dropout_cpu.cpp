#include "kernels/dropout/dropout.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout/dropout_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/noise/noise.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a number is below the share where its 23 bits are below this
uint32_t threshold(float share) {
  return uint32_t(std::ceil(std::max(0., double(share) * 8388608. - 0.5)));
}

#if HWY_TARGET == HWY_SCALAR
void dropout(const DropoutPanel& a) {
  const float kept = float(1 / (1 - double(a.share)));
  const uint32_t least = threshold(a.share);
  for (int64_t f = 0; f < a.features; f += 4)
    for (int64_t r = 0; r < a.stride; ++r) {
      const uint64_t counter = (a.first + uint64_t(r) * a.row_step + uint64_t(f)) / 4;
      const PhiloxBlock block = philox(a.seed, a.stream, counter);
      for (int64_t k = 0; k < 4 && f + k < a.features; ++k)
        a.factor[(f + k) * a.stride + r] = (block.word[k] >> 9) < least ? 0.f : kept;
    }
}
#else

// a 64-bit lane computes a row's block; upper halves hold rubbish on the way, products read the
// lower ones
template <class D>
struct Words {
  hn::Vec<D> word[4];
};

template <class D>
HWY_INLINE Words<D> philox_rows(D wide, uint64_t seed, uint64_t stream, hn::Vec<D> counter) {
  const hn::RepartitionToNarrow<D> words;
  const auto times = [&](hn::Vec<D> a, uint32_t factor) HWY_ATTR {
    return hn::MulEven(hn::BitCast(words, a), hn::Set(words, factor));
  };
  auto c0 = counter, c1 = hn::ShiftRight<32>(counter);
  auto c2 = hn::Set(wide, stream), c3 = hn::Set(wide, stream >> 32);
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto p0 = times(c0, 0xD2511F53u), p1 = times(c2, 0xCD9E8D57u);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(wide, uint64_t(k0)));
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(wide, uint64_t(k1)));
    c1 = p1, c3 = p0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

void dropout(const DropoutPanel& a) {
  const hn::CappedTag<uint64_t, 8> wide;
  const hn::RepartitionToNarrow<decltype(wide)> words;
  const hn::RebindToFloat<decltype(words)> d;
  const int64_t lanes = int64_t(hn::Lanes(wide));
  const auto kept = hn::Set(d, float(1 / (1 - double(a.share))));
  const auto least = hn::Set(words, threshold(a.share));
  const auto lower = hn::BitCast(words, hn::Set(wide, 0xffffffffu));
  const uint64_t step = a.row_step / 4;
  // even rows' counters and odd rows': their words lie side by side
  HWY_ALIGN uint64_t first[hn::MaxLanes(wide)];
  for (int64_t r = 0; r < a.stride; r += 2 * lanes) {
    for (int64_t l = 0; l < lanes; ++l) first[l] = a.first / 4 + uint64_t(r + 2 * l) * step;
    auto even = hn::Load(wide, first), odd = even + hn::Set(wide, step);
    for (int64_t f = 0; f < a.features; f += 4) {
      const auto x = philox_rows(wide, a.seed, a.stream, even);
      const auto y = philox_rows(wide, a.seed, a.stream, odd);
      even = even + hn::Set(wide, uint64_t(1)), odd = odd + hn::Set(wide, uint64_t(1));
      for (int64_t k = 0; k < 4 && f + k < a.features; ++k) {
        const auto both = hn::Or(hn::And(hn::BitCast(words, x.word[k]), lower),
                                 hn::BitCast(words, hn::ShiftLeft<32>(y.word[k])));
        const auto dropped = hn::Lt(hn::ShiftRight<9>(both), least);
        hn::Store(hn::IfThenZeroElse(hn::RebindMask(d, dropped), kept), d,
                  a.factor + (f + k) * a.stride + r);
      }
    }
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(dropout);

void dropout_cpu(const DropoutPanel& args) { HWY_DYNAMIC_DISPATCH(dropout)(args); }

}  // namespace maglev
#endif
