#include "kernels/tanh/tanh.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

float one(float x) {
  tanh_cpu(&x, 1);
  return x;
}

TEST(Tanh, is_within_three_units_in_the_last_place_everywhere) {
  double worst = 0;
  // every 1,009th float, both signs, from the smallest normal number to 16
  for (uint32_t bits = 0x00800000; bits < 0x41800000; bits += 1009) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    const double exact = std::tanh(double(x));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(one(x) - exact) / unit);
    ASSERT_EQ(one(-x), -one(x)) << x;
  }
  EXPECT_LE(worst, 3.0);
}

TEST(Tanh, ends_at_one_and_keeps_nan) {
  EXPECT_EQ(one(20.f), 1.f);
  EXPECT_EQ(one(-std::numeric_limits<float>::infinity()), -1.f);
  EXPECT_EQ(one(0.f), 0.f);
  EXPECT_TRUE(std::isnan(one(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Tanh, a_number_has_the_same_bits_wherever_it_stands) {
  std::vector<float> numbers(131);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.07f * float(i) - 4.f;
  for (size_t count : {1u, 5u, 16u, 17u, 31u, 131u}) {
    std::vector<float> part(numbers.begin(), numbers.begin() + long(count));
    tanh_cpu(part.data(), int64_t(count));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(part[i], one(numbers[i])) << count << " " << i;
  }
}

}  // namespace
}  // namespace maglev
