#pragma once
// An environment's pictures as networks are to see them: of another size, in grey, with those of
// the steps before beside them. What the environment draws lies in its slot, behind its state, with
// the pictures that were seen before; one pass reads it and writes the row that is stored. So a
// ring holds what networks read and no more, and no episode's picture shows another's.
//
// Every number is an integer sum: the same bits on every processor and device.

#include <cstddef>
#include <cstdint>

#include "base/config/options.h"
#include "base/core/hd.h"
#include "base/env/spec.h"

namespace maglev {

/// What is done to pictures: settings env.image.*.
struct ImageTransform {
  int64_t resize = 0;  ///< pixels of each side, by areas; 0: as they are drawn
  bool grey = false;   ///< luma of ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B, in 1/256
  int64_t stack = 1;   ///< pictures beside each other as channels, the newest first

  static void describe(OptionTable& table, ImageTransform& transform);
  bool changes() const { return resize > 0 || grey || stack > 1; }
  /// What networks see of what an environment shows. Throws Error where that is no picture, or none
  /// that can be made grey.
  EnvSpec seen(EnvSpec shown) const;
};

/// The same in numbers, where environments step.
struct ImageView {
  int32_t column = -1;            ///< of the observations; below 0: nothing is transformed
  int32_t H = 0, W = 0, C = 0;    ///< as drawn
  int32_t h = 0, w = 0, c = 0;    ///< as seen, of each picture
  int32_t stack = 1;              ///< pictures in a row
  int64_t drawn = 0, before = 0;  ///< where in a slot: [H, W, C], and [stack - 1, h, w, c]

  bool active() const { return column >= 0; }
  MAGLEV_HD bool is_grey() const { return c == 1 && C == 3; }
  /// What the sums of an area's shares come to; of luma, which is in 1/256, too.
  MAGLEV_HD int64_t all() const { return int64_t(H) * W * (is_grey() ? 256 : 1); }
  /// In 256ths.
  MAGLEV_HD static uint32_t luma(const uint8_t* rgb) {
    return 77u * rgb[0] + 150u * rgb[1] + 29u * rgb[2];
  }
  /// Of [begin, end) what the drawn row or column `place` covers, all in units in which it is
  /// `size`.
  MAGLEV_HD static int64_t covered(int64_t place, int64_t size, int64_t begin, int64_t end) {
    const int64_t from = place * size > begin ? place * size : begin;
    const int64_t to = (place + 1) * size < end ? (place + 1) * size : end;
    return to - from;
  }
};

/// `transform` of what an environment shows, whose slots hold `state_bytes` besides.
ImageView image_view(const ImageTransform& transform, const EnvSpec& shown, size_t state_bytes);
/// Bytes of a slot with what a view keeps there.
size_t viewed_bytes(const ImageView& view, size_t state_bytes);

struct EnvBatch;
struct StepIo;

/// Where environments draw for `view`: their slots.
StepIo drawn_io(const ImageView& view, const EnvBatch& batch, const StepIo& io);
/// Rows of environments [begin, end), which have drawn, into io's column; pictures that were seen
/// move on. An episode's first picture stands for those before it.
void see_images_cpu(const EnvBatch& batch, const StepIo& io, int64_t begin, int64_t end);
/// The same of environments [0, count) on `stream` (a cudaStream_t); returns a cudaError_t. Only in
/// builds with device code.
int see_images_cuda(const EnvBatch& batch, const StepIo& io, int64_t count, void* stream);

/// Pixel (y, x), channel k of a picture as it is seen: the mean over the area that it covers.
MAGLEV_HD uint8_t seen_pixel(const ImageView& v, const uint8_t* drawn, int32_t y, int32_t x,
                             int32_t k) {
  // in units of 1/h and 1/w of a drawn pixel it begins and ends on whole numbers
  const int64_t top = int64_t(y) * v.H, bottom = top + v.H;
  const int64_t left = int64_t(x) * v.W, right = left + v.W;
  int64_t sum = 0;
  for (int64_t row = top / v.h; row * v.h < bottom; ++row) {
    int64_t line = 0;
    for (int64_t column = left / v.w; column * v.w < right; ++column) {
      const uint8_t* pixel = drawn + (row * v.W + column) * v.C;
      const int64_t value = v.is_grey() ? ImageView::luma(pixel) : pixel[k];
      line += ImageView::covered(column, v.w, left, right) * value;
    }
    sum += ImageView::covered(row, v.h, top, bottom) * line;
  }
  return uint8_t((sum + v.all() / 2) / v.all());
}

/// Pixel (y, x) of one environment: all its channels, of this step and of those before.
MAGLEV_HD void see_pixel(const ImageView& v, std::byte* slot, bool first, int32_t y, int32_t x,
                         uint8_t* row) {
  const auto* drawn = reinterpret_cast<const uint8_t*>(slot + v.drawn);
  auto* before = reinterpret_cast<uint8_t*>(slot + v.before);
  const int64_t place = int64_t(y) * v.w + x, picture = int64_t(v.h) * v.w * v.c;
  uint8_t* out = row + place * v.c * v.stack;
  for (int32_t k = 0; k < v.c; ++k) {
    uint8_t newest = seen_pixel(v, drawn, y, x, k);
    out[k] = newest;
    for (int32_t f = 1; f < v.stack; ++f) {
      uint8_t& kept = before[(f - 1) * picture + place * v.c + k];
      const uint8_t older = first ? newest : kept;
      out[f * v.c + k] = older;
      kept = newest;
      newest = older;
    }
  }
}

}  // namespace maglev
