#include "base/env/image_view.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/env/host_envs.h"
#include "tests/errors.h"

namespace maglev {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Picture {
  int64_t H, W, C;
  std::vector<uint8_t> bytes;

  double at(int64_t y, int64_t x, int64_t k) const {
    return double(bytes[size_t((y * W + x) * C + k)]);
  }
};

Picture random_picture(int64_t H, int64_t W, int64_t C, uint64_t seed) {
  Picture picture{H, W, C, std::vector<uint8_t>(size_t(H * W * C))};
  Rng rng(seed, 1, 0);
  for (uint8_t& byte : picture.bytes) byte = uint8_t(rng.below(256));
  return picture;
}

EnvSpec shown(const Picture& picture) {
  return {.observations = {
              {.name = "vector", .shape = {2}},
              {.name = "image", .dtype = DType::u8, .shape = {picture.H, picture.W, picture.C}}}};
}

// of the area that pixel (y, x) covers, in numbers that are no integers
double mean_of(const Picture& p, const ImageView& v, int64_t y, int64_t x, int64_t k) {
  const double top = double(y) * double(v.H) / v.h, bottom = double(y + 1) * double(v.H) / v.h;
  const double left = double(x) * double(v.W) / v.w, right = double(x + 1) * double(v.W) / v.w;
  const auto overlap = [](double place, double begin, double end) {
    return std::max(0.0, std::min(place + 1, end) - std::max(place, begin));
  };
  double sum = 0;
  for (int64_t row = 0; row < p.H; ++row)
    for (int64_t column = 0; column < p.W; ++column) {
      const double area = overlap(double(row), top, bottom) * overlap(double(column), left, right);
      const double value = v.is_grey() ? (77 * p.at(row, column, 0) + 150 * p.at(row, column, 1) +
                                          29 * p.at(row, column, 2)) /
                                             256
                                       : p.at(row, column, k);
      sum += area * value;
    }
  return sum / ((bottom - top) * (right - left));
}

TEST(ImageView, pixels_are_means_of_the_areas_they_cover) {
  struct Case {
    int64_t H, W, C, side;
    bool grey;
  };
  for (const auto& [H, W, C, side, grey] : {Case{84, 84, 3, 64, false},
                                            {84, 84, 3, 64, true},
                                            {30, 50, 3, 7, true},
                                            {10, 10, 4, 23, false},
                                            {8, 8, 1, 8, false},
                                            {64, 64, 3, 0, true},
                                            {5, 9, 2, 1, false}}) {
    const Picture picture = random_picture(H, W, C, uint64_t(H + side));
    const ImageTransform transform{.resize = side, .grey = grey};
    const ImageView v = image_view(transform, shown(picture), /*state_bytes=*/40);
    EXPECT_EQ(v.column, 1);
    // a slot of its own, and a row with something behind it
    const size_t slot_bytes = viewed_bytes(v, 40), row_bytes = size_t(v.h) * v.w * v.c;
    std::vector<std::byte> slot(slot_bytes);
    std::copy(picture.bytes.begin(), picture.bytes.end(),
              reinterpret_cast<uint8_t*>(slot.data()) + v.drawn);
    std::vector<uint8_t> row(row_bytes + 8, 7);
    const uint8_t first = 1;
    EnvBatch batch{.params = nullptr,
                   .slots = slot.data(),
                   .slot_bytes = slot_bytes,
                   .seed = 1,
                   .first_env = 0,
                   .view = v};
    StepIo io;
    io.obs[1] = reinterpret_cast<std::byte*>(row.data());
    io.obs_row_bytes[1] = int64_t(row_bytes);
    io.is_first = const_cast<uint8_t*>(&first);
    see_images_cpu(batch, io, 0, 1);
    for (int32_t y = 0; y < v.h; ++y)
      for (int32_t x = 0; x < v.w; ++x)
        for (int32_t k = 0; k < v.c; ++k) {
          const uint8_t seen = row[size_t((y * v.w + x) * v.c + k)];
          ASSERT_EQ(seen, seen_pixel(v, picture.bytes.data(), y, x, k)) << y << " " << x;
          ASSERT_NEAR(seen, mean_of(picture, v, y, x, k), 0.5 + 1e-9) << y << " " << x;
        }
    for (size_t i = row_bytes; i < row.size(); ++i) EXPECT_EQ(row[i], 7);
  }
}

// the same environments as they are, whose pictures are stacked here
TEST(ImageView, pictures_of_steps_before_stand_behind_the_newest_and_none_of_another_episode) {
  constexpr int64_t kEnvs = 3, kStack = 4;
  const EnvEntry& env = find_env("pendulum_pixels");
  const Settings plain{{"max_steps", "6"}};
  Settings stacked = plain;
  stacked.emplace_back("image.stack", std::to_string(kStack));
  HostEnvs drawn(env, kEnvs, 1, plain), seen(env, kEnvs, 1, stacked);
  EXPECT_EQ(seen.spec().observations[0].shape, (std::vector<int64_t>{64, 64, 3 * kStack}));
  const int64_t row = drawn.io().obs_row_bytes[0];
  std::vector<std::vector<std::vector<uint8_t>>> before(kEnvs);
  Rng draws(1, 2, 0);
  const auto compare = [&](int step) {
    for (int64_t i = 0; i < kEnvs; ++i) {
      const auto* picture = reinterpret_cast<const uint8_t*>(drawn.io().obs[0]) + i * row;
      const auto* stack = reinterpret_cast<const uint8_t*>(seen.io().obs[0]) + i * row * kStack;
      auto& mine = before[size_t(i)];
      if (drawn.is_first[size_t(i)]) mine.assign(kStack, {picture, picture + row});
      else mine.insert(mine.begin(), {picture, picture + row}), mine.resize(kStack);
      for (int64_t pixel = 0; pixel < row / 3; ++pixel)
        for (int64_t k = 0; k < 3 * kStack; ++k)
          ASSERT_EQ(stack[pixel * 3 * kStack + k], mine[size_t(k / 3)][size_t(pixel * 3 + k % 3)])
              << "step " << step << ", environment " << i;
    }
  };
  drawn.reset(), seen.reset();
  compare(-1);
  for (int t = 0; t < 20; ++t) {
    drawn.random_actions(draws);
    seen.actions_f32 = drawn.actions_f32;
    // what is saved goes on as if it had not been
    if (t == 9) {
      const auto saved = seen.save();
      seen.step();
      seen.load(saved);
    }
    drawn.step(), seen.step();
    ASSERT_EQ(seen.reward, drawn.reward);
    compare(t);
  }
}

TEST(ImageView, what_cannot_be_seen_is_told) {
  const EnvEntry& env = find_env("cartpole_pixels");
  EXPECT_TRUE(contains(error_of([&] { HostEnvs(env, 1, 1, {{"image.resize", "-1"}}); }), "resize"));
  ImageTransform grey{.grey = true};
  const Picture planes = random_picture(10, 10, 4, 1);
  EXPECT_TRUE(contains(error_of([&] { grey.seen(shown(planes)); }), "3 channels, got 4"));
  EXPECT_TRUE(
      contains(error_of([&] { grey.seen({.observations = {{.name = "vector", .shape = {2}}}}); }),
               "shows none"));
  EXPECT_EQ(ImageTransform{}.seen(shown(planes)).observations[1].shape,
            (std::vector<int64_t>{10, 10, 4}));
  EXPECT_FALSE(image_view({}, shown(planes), 40).active());
}

}  // namespace
}  // namespace maglev
