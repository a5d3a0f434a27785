#include "envs/pixels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/env/host_envs.h"
#include "envs/cartpole_pixels/cartpole_pixels.h"
#include "envs/pendulum_pixels/pendulum_pixels.h"

namespace maglev {
namespace {

using pixels::kMoments;
using pixels::kPixel;
using pixels::kSide;

constexpr size_t kBytes = size_t(kSide) * kSide * kMoments;

std::vector<uint8_t> channel_of(const uint8_t* image, int channel) {
  std::vector<uint8_t> grey;
  for (size_t i = 0; i < kBytes; i += kMoments) grey.push_back(image[i + size_t(channel)]);
  return grey;
}

TEST(Pixels, places_stay_within_a_picture_s_width) {
  EXPECT_EQ(pixels::fixed_place(3.5f), 3.5f * kPixel);
  EXPECT_EQ(pixels::fixed_place(-63.f), -63 * kPixel);
  for (float left : {-64.f, -65.f, -1e9f, -INFINITY})
    EXPECT_EQ(pixels::fixed_place(left), -kSide * kPixel) << left;
  for (float right : {128.f, 200.f, INFINITY})
    EXPECT_EQ(pixels::fixed_place(right), 2 * kSide * kPixel) << right;
  EXPECT_EQ(pixels::fixed_place(NAN), 0);
}

TEST(Pixels, sine_and_direction_are_those_of_the_angle) {
  for (float angle = -3.14159f; angle < 3.14159f; angle += 0.001f)
    ASSERT_NEAR(pixels::sine(angle), std::sin(double(angle)), 4e-6) << angle;
  for (float angle = -3.14159f; angle < 3.14159f; angle += 0.001f) {
    const auto hand = pixels::direction(angle);
    ASSERT_NEAR(double(hand.x) / pixels::kUnit, std::sin(double(angle)), 4e-5) << angle;
    ASSERT_NEAR(double(hand.y) / pixels::kUnit, -std::cos(double(angle)), 4e-5) << angle;
  }
  for (float none : {NAN, 4.f, -INFINITY}) EXPECT_EQ(pixels::direction(none).y, -pixels::kUnit);
}

// a bar of 20 x 6 pixels, turned, covers as much as it is large, and its middle is where it lies
TEST(Pixels, a_bar_covers_its_area_where_it_lies) {
  for (float angle = -3.1f; angle < 3.1f; angle += 0.1f) {
    const auto along = pixels::direction(angle);
    std::vector<uint8_t> image(kBytes);
    pixels::draw(image.data(), 1,
                 {.x = 30 * kPixel,
                  .y = 35 * kPixel,
                  .along = along,
                  .length = 20 * kPixel,
                  .half = 3 * kPixel,
                  .shade = 255});
    double sum = 0, x = 0, y = 0;
    for (int i = 0; i < kSide * kSide; ++i) {
      ASSERT_EQ(image[size_t(i * kMoments)], 0);
      const double covered = image[size_t(i * kMoments + 1)] / 255.;
      sum += covered, x += covered * (i % kSide + 0.5), y += covered * (i / kSide + 0.5);
    }
    // smooth edges of half a pixel, and corners of which each loses less than one
    EXPECT_NEAR(sum, 20 * 6, 4) << angle;
    EXPECT_NEAR(x / sum, 30 + 10. * along.x / pixels::kUnit, 0.1) << angle;
    EXPECT_NEAR(y / sum, 35 + 10. * along.y / pixels::kUnit, 0.1) << angle;
  }
}

TEST(Pixels, a_bar_out_of_the_picture_is_cut_at_its_edges) {
  // bytes before and behind that nothing may touch
  std::vector<uint8_t> memory(3 * kBytes, 7);
  uint8_t* image = memory.data() + kBytes;
  for (float place : {-1e9f, -100.f, -3.f, 62.f, 100.f, 1e9f, NAN})
    for (float angle = -3.f; angle < 3.2f; angle += 0.5f) {
      pixels::clear(image);
      const auto x = pixels::fixed_place(place);
      for (int channel = 0; channel < kMoments; ++channel)
        pixels::draw(image, channel,
                     {.x = x,
                      .y = -x / 2,
                      .along = pixels::direction(angle),
                      .length = 40 * kPixel,
                      .half = 3 * kPixel,
                      .shade = 255});
    }
  EXPECT_TRUE(std::all_of(memory.begin(), memory.begin() + kBytes, [](int b) { return b == 7; }));
  EXPECT_TRUE(std::all_of(memory.end() - kBytes, memory.end(), [](int b) { return b == 7; }));
}

class PixelEnv : public testing::TestWithParam<std::pair<const char*, const char*>> {};

INSTANTIATE_TEST_SUITE_P(Both, PixelEnv,
                         testing::Values(std::pair{"pendulum_pixels", "pendulum"},
                                         std::pair{"cartpole_pixels", "cartpole"}),
                         [](const auto& info) { return std::string(info.param.second); });

TEST_P(PixelEnv, is_the_same_game_and_its_channels_are_the_last_three_steps) {
  HostEnvs seen(find_env(GetParam().first), 5, 3), told(find_env(GetParam().second), 5, 3);
  seen.reset(), told.reset();
  Rng rng(1, stream_id(Purpose::act, 0), 0);
  const auto channel = [&](int64_t row, int c) { return channel_of(seen.obs<uint8_t>(0, row), c); };
  for (int64_t row = 0; row < 5; ++row) {
    EXPECT_EQ(channel(row, 0), channel(row, 1));
    EXPECT_EQ(channel(row, 0), channel(row, 2));
  }
  int64_t moved = 0;
  for (int t = 0; t < 250; ++t) {
    std::vector<std::vector<uint8_t>> before;
    for (int64_t row = 0; row < 5; ++row)
      before.push_back(channel(row, 0)), before.push_back(channel(row, 1));
    seen.random_actions(rng);
    // the same memory, for the pointers of a step are to it
    std::copy(seen.actions_i32.begin(), seen.actions_i32.end(), told.actions_i32.begin());
    std::copy(seen.actions_f32.begin(), seen.actions_f32.end(), told.actions_f32.begin());
    seen.step(), told.step();
    EXPECT_EQ(seen.reward, told.reward);
    EXPECT_EQ(seen.truncated, told.truncated);
    for (int64_t row = 0; row < 5; ++row) {
      ASSERT_EQ(seen.is_first[size_t(row)], told.is_first[size_t(row)]);
      if (seen.is_first[size_t(row)]) continue;
      ASSERT_EQ(channel(row, 1), before[size_t(2 * row)]);
      ASSERT_EQ(channel(row, 2), before[size_t(2 * row + 1)]);
      moved += channel(row, 0) != channel(row, 1);
    }
  }
  // smooth edges show less than a pixel
  EXPECT_GT(moved, 1000);
}

}  // namespace
}  // namespace maglev
