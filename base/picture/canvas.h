#pragma once
// A small picture in memory and the shapes environments draw themselves with. No antialiasing:
// whoever wants smooth edges draws larger and takes reduced().

#include <cstdint>
#include <span>
#include <vector>

namespace maglev {

struct Rgb {
  uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Rgb&) const = default;
};

struct PixelPoint {
  float x, y;  ///< pixels from the upper left corner, y downwards
};

/// How the plane an environment lives in lies on a picture: its rectangle `width` x `height` around
/// (x, y) is as large as fits, in the middle.
struct View {
  View(int pixels_wide, int pixels_high, float x, float y, float width, float height);

  /// Of a place in the plane, whose y points upwards.
  PixelPoint operator()(float x, float y) const {
    return {middle_x + scale * x, middle_y - scale * y};
  }

  float scale;  ///< pixels a unit
  float middle_x, middle_y;
};

/// Shapes cover the pixels whose centres lie inside them; what lies outside the picture is cut off.
class Canvas {
 public:
  Canvas(int width, int height, Rgb colour = {})
      : width_(width), height_(height), pixels_(size_t(width) * size_t(height), colour) {}

  int width() const { return width_; }
  int height() const { return height_; }
  Rgb at(int x, int y) const { return pixels_[size_t(y) * size_t(width_) + size_t(x)]; }
  /// Rows from the top, without gaps.
  std::span<const Rgb> pixels() const { return pixels_; }
  /// The same, for who draws by other means.
  std::span<Rgb> pixels() { return pixels_; }

  void fill(Rgb colour);
  void rectangle(PixelPoint upper_left, PixelPoint lower_right, Rgb colour);
  void disc(PixelPoint centre, float radius, Rgb colour);
  /// A circle's line, `width` wide, half inside and half outside.
  void ring(PixelPoint centre, float radius, float width, Rgb colour);
  /// A straight line with round ends.
  void line(PixelPoint from, PixelPoint to, float width, Rgb colour);
  /// Convex, in either direction.
  void polygon(std::span<const PixelPoint> corners, Rgb colour);

  /// Copies a picture to where its upper left corner is (x, y).
  void place(const Canvas& picture, int x, int y);

  /// Each pixel the mean of factor x factor pixels; what is left over at the edges is dropped.
  Canvas reduced(int factor) const;

 private:
  template <class Inside>
  void paint(float left, float top, float right, float bottom, Rgb colour, Inside inside);

  int width_, height_;
  std::vector<Rgb> pixels_;
};

}  // namespace maglev
