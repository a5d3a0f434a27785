#include "kernels/cells/cells.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cells/cells_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a byte's channels are copied in whole vectors that reach over their end: what they write there
// the next byte overwrites. Only where the table or the output ends is a copy exact.
template <class D, class T>
void decode(D d, const CellsArgs<T>& a) {
  const int64_t lanes = int64_t(hn::Lanes(d));
  const int64_t per_byte = 8 / a.bits, width = per_byte * a.channels;
  const int64_t reach = (width + lanes - 1) / lanes * lanes;
  const int64_t last_from = 256 * width - reach;
  const int64_t last_to = a.rows * a.cells * a.channels - reach;
  int64_t to = 0;
  for (int64_t row = 0; row < a.rows; ++row) {
    const uint8_t* packed = a.packed + row * a.row_bytes;
    for (int64_t cell = 0; cell < a.cells; cell += per_byte) {
      const int64_t count = std::min(per_byte, a.cells - cell) * a.channels;
      const int64_t from = *packed++ * width;
      if (from <= last_from && to <= last_to)
        for (int64_t k = 0; k < width; k += lanes)
          hn::StoreU(hn::LoadU(d, a.table + from + k), d, a.out + to + k);
      else std::memcpy(a.out + to, a.table + from, size_t(count) * sizeof(T));
      to += count;
    }
  }
}

// the narrowest vector that holds a byte's channels, so that little is written twice
template <class T>
void decode_cells(const CellsArgs<T>& a) {
  constexpr int64_t kLanes16 = 16 / sizeof(T);
  const int64_t width = 8 / a.bits * a.channels;
  if (width <= kLanes16) decode(hn::CappedTag<T, kLanes16>(), a);
  else if (width <= 2 * kLanes16) decode(hn::CappedTag<T, 2 * kLanes16>(), a);
  else decode(hn::ScalableTag<T>(), a);
}

void decode_f32(const CellsArgs<float>& a) { decode_cells(a); }
void decode_bf16(const CellsArgs<uint16_t>& a) { decode_cells(a); }

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(decode_f32);
HWY_EXPORT(decode_bf16);

void cells_cpu(const CellsArgs<float>& args) { HWY_DYNAMIC_DISPATCH(decode_f32)(args); }
void cells_cpu(const CellsArgs<uint16_t>& args) { HWY_DYNAMIC_DISPATCH(decode_bf16)(args); }

std::vector<float> cell_table(int bits, int64_t channels, const std::vector<float>& palette) {
  const int64_t per_byte = 8 / bits, codes = 1 << bits;
  std::vector<float> table(size_t(256 * per_byte * channels), 0.f);
  for (int64_t byte = 0; byte < 256; ++byte)
    for (int64_t i = 0; i < per_byte; ++i) {
      const int64_t code = (byte >> (i * bits)) & (codes - 1);
      for (int64_t c = 0; c < channels; ++c)
        if (size_t(code * channels + c) < palette.size())
          table[size_t((byte * per_byte + i) * channels + c)] =
              palette[size_t(code * channels + c)];
    }
  return table;
}

}  // namespace maglev
#endif
