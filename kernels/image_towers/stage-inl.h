// What encoder and decoder do on a panel of images besides convolutions: images into lanes and
// rows, the norm with SiLU, and back. Included once per instruction set (hwy/foreach_target.h),
// hence no plain include guard.
#if defined(MAGLEV_KERNELS_STAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAGLEV_KERNELS_STAGE_INL_H_
#undef MAGLEV_KERNELS_STAGE_INL_H_
#else
#define MAGLEV_KERNELS_STAGE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "base/simd/math-inl.h"
#include "base/simd/windows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kTowerNormEps = 1e-4f;

// bytes [count][step] of 16 images from `bytes` on, `image` apart, as [i][16] numbers times
// `factor` plus `start`; of fewer images the last one's bytes fill the other lanes
HWY_INLINE void bytes_to_lanes(const uint8_t* bytes, int64_t image, int64_t images, int64_t count,
                               float factor, float start, float* to) {
  const ImageTag d;
  const hn::RebindToSigned<ImageTag> integers;
  const hn::Rebind<uint8_t, ImageTag> narrow;
  const auto by = hn::Set(d, factor), plus = hn::Set(d, start);
  const uint8_t* of[kImageLanes];
  for (int64_t n = 0; n < kImageLanes; ++n) of[n] = bytes + std::min(n, images - 1) * image;
  constexpr int64_t kBytes = 16;
  HWY_ALIGN uint8_t turned[kBytes * kImageLanes];
  uint8_t rest[kImageLanes][kBytes] = {};
  for (int64_t first = 0; first < count; first += kBytes) {
    // behind an image's last bytes nothing may be read
    const int64_t here = std::min(kBytes, count - first);
    for (int64_t n = 0; here < kBytes && n < kImageLanes; ++n)
      std::copy_n(of[n] + first, here, rest[n]);
    const auto from = [&](int64_t n) { return here < kBytes ? rest[n] : of[n] + first; };
#if HWY_TARGET == HWY_SCALAR
    for (int64_t i = 0; i < kBytes; ++i)
      for (int64_t n = 0; n < kImageLanes; ++n) turned[i * kImageLanes + n] = from(n)[i];
#else
    // row n next to row n + 8, four times: what was a row is a column
    const hn::FixedTag<uint8_t, kBytes> d_bytes;
    using Bytes = hn::Vec<decltype(d_bytes)>;
    Bytes a[kImageLanes], b[kImageLanes];
#pragma GCC unroll 16
    for (int n = 0; n < kImageLanes; ++n) a[n] = hn::LoadU(d_bytes, from(n));
#pragma GCC unroll 4
    for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 16
      for (int n = 0; n < kImageLanes / 2; ++n) {
        b[2 * n] = hn::InterleaveLower(d_bytes, a[n], a[n + 8]);
        b[2 * n + 1] = hn::InterleaveUpper(d_bytes, a[n], a[n + 8]);
      }
#pragma GCC unroll 16
      for (int n = 0; n < kImageLanes; ++n) a[n] = b[n];
    }
#pragma GCC unroll 16
    for (int n = 0; n < kImageLanes; ++n) hn::Store(a[n], d_bytes, turned + n * kBytes);
#endif
    for (int64_t i = 0; i < here * kImageLanes; i += kImageStep) {
      const auto whole = hn::PromoteTo(integers, hn::LoadU(narrow, turned + i));
      hn::Store(hn::MulAdd(hn::ConvertTo(d, whole), by, plus), d, to + first * kImageLanes + i);
    }
  }
}

// 1 / (1 + exp(-u))
HWY_INLINE ImageVector sigmoid(ImageVector u) {
  const ImageTag d;
  const auto one = hn::Set(d, 1.f);
  return one / (one + exp_vector(d, hn::Neg(u)));
}

// one over the root of the mean square of `channels` numbers
HWY_INLINE ImageVector root_mean_square(const float* z, int64_t channels) {
  const ImageTag d;
  auto squares = hn::Zero(d);
  for (int64_t c = 0; c < channels; ++c) {
    const auto value = hn::Load(d, z + c * kImageLanes);
    squares = hn::MulAdd(value, value, squares);
  }
  const auto mean =
      hn::MulAdd(squares, hn::Set(d, 1.f / float(channels)), hn::Set(d, kTowerNormEps));
  return hn::Set(d, 1.f) / hn::Sqrt(mean);
}

// y = silu(norm(z)) of places with `channels` numbers each
HWY_INLINE void norm_silu(const float* z, const float* scale, int64_t places, int64_t channels,
                          float* y) {
  const ImageTag d;
  for (int64_t p = 0; p < places; ++p)
    for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep) {
      const int64_t offset = p * channels * kImageLanes + lane;
      const auto root = root_mean_square(z + offset, channels);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t i = offset + c * kImageLanes;
        const auto u = hn::Load(d, z + i) * root * hn::Set(d, scale[c]);
        hn::Store(u * sigmoid(u), d, y + i);
      }
    }
}

// dy becomes dz where it lies; gradients of scale and of the bias before the norm are added to
// d_scale, d_bias [channels][16]
HWY_INLINE void norm_silu_grad(const float* z, const float* scale, int64_t places, int64_t channels,
                               float* dy, float* d_scale, float* d_bias) {
  const ImageTag d;
  const auto one = hn::Set(d, 1.f), share = hn::Set(d, 1.f / float(channels));
  for (int64_t p = 0; p < places; ++p)
    for (int64_t lane = 0; lane < kImageLanes; lane += kImageStep) {
      const int64_t offset = p * channels * kImageLanes + lane;
      const auto root = root_mean_square(z + offset, channels);
      auto along = hn::Zero(d);
      // back through SiLU and the scale
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t i = offset + c * kImageLanes;
        float* to = d_scale + c * kImageLanes + lane;
        const auto factor = hn::Set(d, scale[c]);
        const auto unit = hn::Load(d, z + i) * root, u = unit * factor, s = sigmoid(u);
        const auto du = hn::Load(d, dy + i) * s * hn::MulAdd(u, one - s, one);
        hn::Store(hn::MulAdd(du, unit, hn::Load(d, to)), d, to);
        const auto slope = du * factor;
        along = hn::MulAdd(slope, unit, along);
        hn::Store(slope, d, dy + i);
      }
      // what lies along z has no influence
      const auto mean = along * share;
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t i = offset + c * kImageLanes;
        float* to = d_bias + c * kImageLanes + lane;
        const auto unit = hn::Load(d, z + i) * root;
        const auto dz = root * hn::NegMulAdd(unit, mean, hn::Load(d, dy + i));
        hn::Store(hn::Load(d, to) + dz, d, to);
        hn::Store(dz, d, dy + i);
      }
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#endif
