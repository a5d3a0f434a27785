#pragma once
// Bytes of images to the numbers networks take.

#include <cstdint>

#include "base/core/bfloat16.h"

namespace maglev {

/// out[i] = float(bytes[i]) * scale, i in [0, count). Instructions are chosen at run time.
void image_cpu(const uint8_t* bytes, int64_t count, float scale, float* out);
/// The same rounded to bfloat16 (nearest, ties to even), the same bits on every machine. `out`
/// holds bits. `scale` finite.
void image_cpu(const uint8_t* bytes, int64_t count, float scale, uint16_t* out);

/// The same on `stream` (a cudaStream_t); returns a cudaError_t. T is one of the two. Only in
/// builds with device code.
template <class T>
int image_cuda(const uint8_t* bytes, int64_t count, float scale, T* out, void* stream);

MAGLEV_HD void image_element(uint8_t byte, float scale, float& out) { out = float(byte) * scale; }
MAGLEV_HD void image_element(uint8_t byte, float scale, uint16_t& out) {
  out = bfloat16_bits(float(byte) * scale);
}

}  // namespace maglev
