#include "kernels/image/image.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/image_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
hn::Vec<D> scaled(D d, const uint8_t* bytes, hn::Vec<D> scale) {
  const hn::Rebind<uint8_t, D> d_bytes;
  const hn::RebindToSigned<D> integers;
  return hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(d_bytes, bytes))) * scale;
}

void store(hn::ScalableTag<float> d, hn::Vec<hn::ScalableTag<float>> v, float* out) {
  hn::StoreU(v, d, out);
}

// rounded by integer arithmetic: as fast as the memory it writes, and the instruction that some
// processors have for it treats tiny numbers differently
void store(hn::ScalableTag<float> d, hn::Vec<hn::ScalableTag<float>> v, uint16_t* out) {
  const hn::RebindToUnsigned<decltype(d)> u32;
  const hn::RebindToSigned<decltype(d)> i32;
  const hn::Rebind<uint16_t, decltype(d)> u16;
  const auto bits = hn::BitCast(u32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
  const auto rounded = hn::ShiftRight<16>(bits + hn::Set(u32, 0x7FFF) + odd);
  hn::StoreU(hn::DemoteTo(u16, hn::BitCast(i32, rounded)), u16, out);
}

template <class T>
void convert(const uint8_t* bytes, int64_t count, float scale, T* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(d, scaled(d, bytes + i, factor), out + i);
  for (; i < count; ++i) image_element(bytes[i], scale, out[i]);
}

void normalise(const uint8_t* bytes, int64_t count, float* out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> d_bytes;
  const hn::RebindToSigned<decltype(d)> integers;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto most = hn::Set(d, 255.f), half = hn::Set(d, 0.5f);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(d_bytes, bytes + i)));
    hn::StoreU(v / most - half, d, out + i);
  }
  for (; i < count; ++i) out[i] = image_normal(bytes[i]);
}

void shift_images(const ImageShift& a) {
  const int64_t row = a.W * a.C;
  for (int64_t n = 0; n < a.N; ++n) {
    const int64_t dy = image_shift(a.uniforms[2 * n], a.pad);
    const int64_t dx = image_shift(a.uniforms[2 * n + 1], a.pad);
    // columns whose places lie within the image are one stretch of its row
    const int64_t first = std::clamp<int64_t>(-dx, 0, a.W);
    const int64_t last = std::clamp<int64_t>(a.W - dx, first, a.W);
    for (int64_t y = 0; y < a.H; ++y) {
      const uint8_t* from = a.bytes + (n * a.H + image_place(y + dy, a.H)) * row;
      float* to = a.out + (n * a.H + y) * row;
      normalise(from + (first + dx) * a.C, (last - first) * a.C, to + first * a.C);
      for (int64_t x = 0; x < first; ++x) normalise(from, a.C, to + x * a.C);
      for (int64_t x = last; x < a.W; ++x) normalise(from + row - a.C, a.C, to + x * a.C);
    }
  }
}

void convert_f32(const uint8_t* bytes, int64_t count, float scale, float* out) {
  convert(bytes, count, scale, out);
}
void convert_bf16(const uint8_t* bytes, int64_t count, float scale, uint16_t* out) {
  convert(bytes, count, scale, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(convert_f32);
HWY_EXPORT(convert_bf16);
HWY_EXPORT(shift_images);

void image_shift_cpu(const ImageShift& args) { HWY_DYNAMIC_DISPATCH(shift_images)(args); }

void image_cpu(const uint8_t* bytes, int64_t count, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(convert_f32)(bytes, count, scale, out);
}
void image_cpu(const uint8_t* bytes, int64_t count, float scale, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(convert_bf16)(bytes, count, scale, out);
}

}  // namespace maglev
#endif
