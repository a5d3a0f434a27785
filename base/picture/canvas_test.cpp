#include "base/picture/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace maglev {
namespace {

constexpr Rgb kRed{200, 0, 0};

int64_t painted(const Canvas& canvas) {
  return std::count(canvas.pixels().begin(), canvas.pixels().end(), kRed);
}

TEST(Canvas, shapes_cover_the_area_they_have) {
  Canvas box(100, 100), disc(100, 100), ring(100, 100), polygon(100, 100);
  box.rectangle({10, 20}, {40, 70}, kRed);
  EXPECT_EQ(painted(box), 30 * 50);
  disc.disc({50, 50}, 30, kRed);
  EXPECT_NEAR(double(painted(disc)), M_PI * 900, 30);
  ring.ring({50, 50}, 30, 4, kRed);
  EXPECT_NEAR(double(painted(ring)), 2 * M_PI * 30 * 4, 40);
  // in either direction
  const std::array<PixelPoint, 3> corners{{{10, 10}, {90, 10}, {10, 90}}};
  polygon.polygon(corners, kRed);
  EXPECT_NEAR(double(painted(polygon)), 3200, 90);
  const std::array<PixelPoint, 3> back{{{10, 90}, {90, 10}, {10, 10}}};
  Canvas reversed(100, 100);
  reversed.polygon(back, kRed);
  EXPECT_EQ(painted(reversed), painted(polygon));
}

TEST(Canvas, a_line_has_its_width_and_round_ends) {
  Canvas canvas(100, 100);
  canvas.line({20, 20}, {60, 50}, 10, kRed);
  EXPECT_NEAR(double(painted(canvas)), 50 * 10 + M_PI * 25, 15);
}

TEST(Canvas, a_view_puts_its_rectangle_in_the_middle_with_y_upwards) {
  const View view(200, 100, 1.f, 2.f, 4.f, 4.f);
  EXPECT_EQ(view.scale, 25.f);
  EXPECT_EQ(view(1.f, 2.f).x, 100.f);
  EXPECT_EQ(view(1.f, 2.f).y, 50.f);
  EXPECT_EQ(view(1.f, 4.f).y, 0.f);
}

TEST(Canvas, a_picture_placed_over_the_edge_is_cut_off) {
  Canvas canvas(10, 10);
  canvas.place(Canvas(4, 4, kRed), 8, -2);
  EXPECT_EQ(painted(canvas), 2 * 2);
  EXPECT_EQ(canvas.at(9, 0), kRed);
}

TEST(Canvas, cuts_off_what_lies_outside) {
  Canvas canvas(20, 10);
  canvas.disc({-100, -100}, 20, kRed);
  canvas.disc({1000, 5}, 20, kRed);
  EXPECT_EQ(painted(canvas), 0);
  canvas.rectangle({-50, -50}, {500, 500}, kRed);
  EXPECT_EQ(painted(canvas), 200);
}

TEST(Canvas, reduces_to_the_mean_of_its_pixels) {
  Canvas canvas(5, 4);
  canvas.rectangle({0, 0}, {1, 2}, kRed);
  const Canvas small = canvas.reduced(2);
  ASSERT_EQ(small.width(), 2);
  ASSERT_EQ(small.height(), 2);
  EXPECT_EQ(small.at(0, 0), (Rgb{100, 0, 0}));
  EXPECT_EQ(small.at(1, 1), (Rgb{}));
}

}  // namespace
}  // namespace maglev
