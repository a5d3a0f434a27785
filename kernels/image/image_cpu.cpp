#include "kernels/image/image.h"

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

void image_cpu(const uint8_t* bytes, int64_t count, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(convert_f32)(bytes, count, scale, out);
}
void image_cpu(const uint8_t* bytes, int64_t count, float scale, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(convert_bf16)(bytes, count, scale, out);
}

}  // namespace maglev
#endif
