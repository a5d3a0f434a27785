#pragma once
// Pictures that networks learn from, drawn where they are kept: a u8 row of 64 x 64 x 3 whose
// channels are grey pictures of the last three moments, the newest first, so that what moves is
// seen to move. Everything behind an angle or a place is integer arithmetic with smooth edges (a
// pixel's share that is covered), so a state has the same picture on every processor and device.

#include <cstdint>
#include <cstring>

#include "base/env/env.h"

namespace maglev::pixels {

constexpr int kSide = 64, kMoments = 3;
/// Places and lengths are in 1/256 of a pixel, directions in 1/16384.
constexpr int32_t kPixel = 256, kUnit = 16384;

inline ObsColumn column() {
  return {.name = "image", .dtype = DType::u8, .shape = {kSide, kSide, kMoments}};
}

struct Direction {
  int32_t x, y;  ///< of length kUnit; y goes down
};

/// Taylor's series folded into a quarter turn; |angle| at most pi. Within 4e-6.
MAGLEV_HD float sine(float angle) {
  constexpr float pi = 3.14159265358979f;
  const float a = angle > pi / 2 ? pi - angle : angle < -pi / 2 ? -pi - angle : angle;
  const float a2 = a * a;
  return a + a * a2 * (-1.f / 6 + a2 * (1.f / 120 + a2 * (-1.f / 5040 + a2 * (1.f / 362880))));
}

/// Where a hand points that was turned clockwise by `angle` in [-pi, pi] from upright. An angle
/// that is out of range or not a number points up.
MAGLEV_HD Direction direction(float angle) {
  constexpr float pi = 3.14159265358979f;
  if (!(angle >= -pi && angle <= pi)) return {0, -kUnit};
  const auto fixed = [](float x) { return int32_t(x * kUnit + (x < 0 ? -0.5f : 0.5f)); };
  const float turned = angle + pi / 2;
  return {fixed(sine(angle)), -fixed(sine(turned > pi ? turned - 2 * pi : turned))};
}

/// `place` in pixels, kept within a picture's width of the picture. Not a number is the left edge.
MAGLEV_HD int32_t fixed_place(float place) {
  constexpr float most = 2.f * kSide, least = -float(kSide);
  const float inside = place < least ? least : place > most ? most : place == place ? place : 0.f;
  return int32_t(inside * kPixel + (inside < 0 ? -0.5f : 0.5f));
}

/// A rectangle that begins at (x, y), goes `length` along a direction and `half` to both sides.
struct Bar {
  int32_t x, y;
  Direction along;
  int32_t length, half;
  int32_t shade;  ///< 1 to 255
};

/// Nothing is there, in all channels.
MAGLEV_HD void clear(uint8_t* image) { memset(image, 0, size_t(kSide) * kSide * kMoments); }

/// Draws `bar` into one channel of image [64, 64, 3]; where something is drawn already the brighter
/// stays.
MAGLEV_HD void draw(uint8_t* image, int channel, const Bar& bar) {
  const auto clamped = [](int32_t v, int32_t most) { return v < 0 ? 0 : v > most ? most : v; };
  const auto scaled = [](int32_t unit, int32_t by) { return unit * by / kUnit; };
  const auto absolute = [](int32_t v) { return v < 0 ? -v : v; };
  const Direction u = bar.along;
  // pixels that an end, a side or half a pixel of smooth edge may touch
  const int32_t wide = scaled(absolute(u.y), bar.half) + kPixel;
  const int32_t high = scaled(absolute(u.x), bar.half) + kPixel;
  const int32_t end_x = bar.x + scaled(u.x, bar.length), end_y = bar.y + scaled(u.y, bar.length);
  const auto first = [&](int32_t a, int32_t b, int32_t margin) {
    return clamped(((a < b ? a : b) - margin) / kPixel, kSide);
  };
  const auto last = [&](int32_t a, int32_t b, int32_t margin) {
    return clamped(((a < b ? b : a) + margin) / kPixel + 1, kSide);
  };
  const int32_t left = first(bar.x, end_x, wide), right = last(bar.x, end_x, wide);
  const int32_t top = first(bar.y, end_y, high), bottom = last(bar.y, end_y, high);
  for (int32_t row = top; row < bottom; ++row) {
    const int32_t dy = row * kPixel + kPixel / 2 - bar.y;
    uint8_t* pixel = image + (row * kSide + left) * kMoments + channel;
    for (int32_t c = left; c < right; ++c, pixel += kMoments) {
      const int32_t dx = c * kPixel + kPixel / 2 - bar.x;
      // how far within the bar the pixel's middle lies, along it and across
      const int32_t along = (dx * u.x + dy * u.y) / kUnit;
      const int32_t across = absolute((dx * u.y - dy * u.x) / kUnit);
      const int32_t before = bar.length - along, beside = bar.half - across;
      int32_t inside = along < before ? along : before;
      inside = inside < beside ? inside : beside;
      const int32_t covered = clamped(inside + kPixel / 2, kPixel);
      const int32_t value = covered * bar.shade / kPixel;
      if (value > *pixel) *pixel = uint8_t(value);
    }
  }
}

}  // namespace maglev::pixels
