#include "base/picture/canvas.h"

#include <algorithm>
#include <cmath>

namespace maglev {

View::View(int pixels_wide, int pixels_high, float x, float y, float width, float height)
    : scale(std::min(float(pixels_wide) / width, float(pixels_high) / height)),
      middle_x(0.5f * float(pixels_wide) - scale * x),
      middle_y(0.5f * float(pixels_high) + scale * y) {}

template <class Inside>
void Canvas::paint(float left, float top, float right, float bottom, Rgb colour, Inside inside) {
  const auto within = [](float v, int most) {
    return int(std::clamp(std::floor(v), 0.f, float(most)));
  };
  const int x1 = within(right + 1.f, width_), y1 = within(bottom + 1.f, height_);
  for (int y = within(top, height_); y < y1; ++y)
    for (int x = within(left, width_); x < x1; ++x)
      if (inside(float(x) + 0.5f, float(y) + 0.5f))
        pixels_[size_t(y) * size_t(width_) + size_t(x)] = colour;
}

void Canvas::fill(Rgb colour) { std::fill(pixels_.begin(), pixels_.end(), colour); }

void Canvas::rectangle(PixelPoint a, PixelPoint b, Rgb colour) {
  paint(a.x, a.y, b.x, b.y, colour,
        [&](float x, float y) { return x >= a.x && x < b.x && y >= a.y && y < b.y; });
}

void Canvas::disc(PixelPoint c, float radius, Rgb colour) {
  paint(c.x - radius, c.y - radius, c.x + radius, c.y + radius, colour, [&](float x, float y) {
    return (x - c.x) * (x - c.x) + (y - c.y) * (y - c.y) <= radius * radius;
  });
}

void Canvas::ring(PixelPoint c, float radius, float width, Rgb colour) {
  const float reach = radius + width / 2;
  paint(c.x - reach, c.y - reach, c.x + reach, c.y + reach, colour, [&](float x, float y) {
    return std::abs(std::hypot(x - c.x, y - c.y) - radius) <= width / 2;
  });
}

void Canvas::line(PixelPoint a, PixelPoint b, float width, Rgb colour) {
  const float reach = width / 2, dx = b.x - a.x, dy = b.y - a.y;
  const float square = std::max(dx * dx + dy * dy, 1e-12f);
  paint(std::min(a.x, b.x) - reach, std::min(a.y, b.y) - reach, std::max(a.x, b.x) + reach,
        std::max(a.y, b.y) + reach, colour, [&](float x, float y) {
          // the nearest point of the line lies this share of the way from a to b
          const float way = std::clamp(((x - a.x) * dx + (y - a.y) * dy) / square, 0.f, 1.f);
          return std::hypot(x - a.x - way * dx, y - a.y - way * dy) <= reach;
        });
}

void Canvas::polygon(std::span<const PixelPoint> corners, Rgb colour) {
  if (corners.size() < 3) return;
  float left = corners[0].x, right = left, top = corners[0].y, bottom = top;
  for (const PixelPoint& p : corners) {
    left = std::min(left, p.x), right = std::max(right, p.x);
    top = std::min(top, p.y), bottom = std::max(bottom, p.y);
  }
  paint(left, top, right, bottom, colour, [&](float x, float y) {
    // on the same side of every edge
    bool before = false, behind = false;
    for (size_t i = 0; i < corners.size(); ++i) {
      const PixelPoint &a = corners[i], &b = corners[(i + 1) % corners.size()];
      const float side = (b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x);
      before |= side<0.f, behind |= side> 0.f;
    }
    return !(before && behind);
  });
}

void Canvas::place(const Canvas& picture, int left, int top) {
  const int from_x = std::max(0, -left), to_x = std::min(picture.width_, width_ - left);
  const int from_y = std::max(0, -top), to_y = std::min(picture.height_, height_ - top);
  for (int y = from_y; y < to_y; ++y)
    for (int x = from_x; x < to_x; ++x)
      pixels_[size_t(top + y) * size_t(width_) + size_t(left + x)] = picture.at(x, y);
}

Canvas Canvas::reduced(int factor) const {
  Canvas small(width_ / factor, height_ / factor);
  const int count = factor * factor;
  for (int y = 0; y < small.height_; ++y)
    for (int x = 0; x < small.width_; ++x) {
      int r = 0, g = 0, b = 0;
      for (int k = 0; k < count; ++k) {
        const Rgb p = at(x * factor + k % factor, y * factor + k / factor);
        r += p.r, g += p.g, b += p.b;
      }
      const auto mean = [&](int sum) { return uint8_t((sum + count / 2) / count); };
      small.pixels_[size_t(y) * size_t(small.width_) + size_t(x)] = {mean(r), mean(g), mean(b)};
    }
  return small;
}

}  // namespace maglev
