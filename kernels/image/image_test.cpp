#include "kernels/image/image.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

std::vector<uint8_t> ramp(int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * 37);
  return bytes;
}

TEST(Image, every_byte_is_scaled_wherever_it_stands) {
  const float scale = 1.f / 255;
  for (int64_t count : {1, 15, 16, 17, 63, 300, 1031}) {
    const auto bytes = ramp(count);
    std::vector<float> out(size_t(count) + 16, -1.f);
    std::vector<uint16_t> halves(size_t(count) + 16, 7);
    image_cpu(bytes.data(), count, scale, out.data());
    image_cpu(bytes.data(), count, scale, halves.data());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], i < bytes.size() ? float(bytes[i]) * scale : -1.f) << i;
      ASSERT_EQ(halves[i], i < bytes.size() ? bfloat16_bits(float(bytes[i]) * scale) : 7) << i;
    }
  }
}

TEST(Image, a_shift_takes_each_of_its_moves_alike_and_repeats_the_edges) {
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) ++seen[size_t(image_shift(float(i) / 7000, 3) + 3)];
  for (int count : seen) EXPECT_NEAR(count, 1000, 1);
  EXPECT_EQ(image_shift(1.f, 3), 3);
  EXPECT_EQ(image_shift(0.99f, 0), 0);

  // 3 x 5 pixels, moved by one row and minus two columns
  constexpr int64_t H = 3, W = 5;
  const auto bytes = ramp(H * W);
  const float uniforms[2] = {0.7f, 0.1f};  // of five moves the fourth and the first
  std::vector<float> out(H * W);
  image_shift_cpu({.bytes = bytes.data(),
                   .uniforms = uniforms,
                   .N = 1,
                   .H = H,
                   .W = W,
                   .C = 1,
                   .pad = 2,
                   .out = out.data()});
  for (int64_t y = 0; y < H; ++y)
    for (int64_t x = 0; x < W; ++x) {
      const int64_t row = y + 1 < H ? y + 1 : H - 1, column = x > 2 ? x - 2 : 0;
      EXPECT_EQ(out[size_t(y * W + x)], float(bytes[size_t(row * W + column)]) / 255 - 0.5f);
    }
}

float value_of(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

TEST(Image, bfloat16_is_the_nearest_one_and_even_in_ties) {
  for (uint32_t bits = 0; bits < 0x7F7F0000u; bits += 40093) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    const uint16_t came = bfloat16_bits(x);
    const double error = std::abs(double(value_of(came)) - x);
    for (int step : {-1, 1}) {
      const double other = std::abs(double(value_of(uint16_t(came + step))) - x);
      if (came == 0 && step < 0) continue;
      ASSERT_TRUE(error < other || (error == other && came % 2 == 0)) << x;
    }
    ASSERT_EQ(bfloat16_bits(-x), came | 0x8000);
  }
  EXPECT_EQ(bfloat16_bits(1.00390625f), 0x3F80);  // halfway, down to even
  EXPECT_EQ(bfloat16_bits(1.01171875f), 0x3F82);  // halfway, up to even
  EXPECT_TRUE(std::isnan(value_of(bfloat16_bits(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(value_of(bfloat16_bits(std::numeric_limits<float>::infinity())),
            std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace maglev
