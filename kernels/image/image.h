#pragma once
// Bytes of images to the numbers networks take, as they are or moved at random.

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

/// Images moved at random and normalised (random shift: Kostrikov, Yarats and Fergus, "Image
/// augmentation is all you need", 2020):
///   out[n][y][x][c] = bytes[n][y + dy][x + dx][c] / 255 - 0.5
/// Beyond an edge the edge repeats; dy and dx are image_shift() of the image's two uniforms.
struct ImageShift {
  const uint8_t* bytes;   ///< [N, H, W, C]
  const float* uniforms;  ///< [N, 2] in [0, 1]: rows, columns
  int64_t N, H, W, C;
  int64_t pad;  ///< farthest move, in [0, min(H, W)]
  float* out;   ///< [N, H, W, C]
};

/// The same bits on every processor and device.
void image_shift_cpu(const ImageShift& args);
/// On `stream`; only in builds with device code.
int image_shift_cuda(const ImageShift& args, void* stream);

/// Each of the 2 * pad + 1 moves in [-pad, pad] alike.
MAGLEV_HD int64_t image_shift(float uniform, int64_t pad) {
  const int64_t moves = 2 * pad + 1;
  const int64_t move = int64_t(uniform * float(moves));
  // a uniform close to 1 may round up to their number
  return (move < moves ? move : moves - 1) - pad;
}
MAGLEV_HD float image_normal(uint8_t byte) { return float(byte) / 255.f - 0.5f; }
MAGLEV_HD int64_t image_place(int64_t place, int64_t side) {
  return place < 0 ? 0 : place < side ? place : side - 1;
}

}  // namespace maglev
