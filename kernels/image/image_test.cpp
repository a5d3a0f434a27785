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
