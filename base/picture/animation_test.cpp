// What files hold is checked by another decoder: tests/python/test_play.py.

#include "base/picture/animation.h"

#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev {
namespace {

std::string error_of(const auto& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Animation, refuses_other_endings_no_frames_and_other_sizes) {
  EXPECT_NE(error_of([] { make_animation("game.avi"); }).find(".png, .gif or .mp4"),
            std::string::npos);
  for (const char* name : {"a.png", "a.gif"}) {
    auto animation = make_animation(name);
    EXPECT_NE(error_of([&] { animation->finish(); }).find("no frame"), std::string::npos);
    animation->add(Canvas(4, 3), 20);
    EXPECT_NE(error_of([&] { animation->add(Canvas(3, 4), 20); }).find("4x3, got 3x4"),
              std::string::npos);
  }
}

TEST(Animation, stores_only_what_changes) {
  const auto folder = std::filesystem::temp_directory_path();
  for (const char* ending : {".png", ".gif"}) {
    size_t bytes[2];
    for (int frames : {1, 50}) {
      const std::string path =
          (folder / ("maglev_animation_" + std::to_string(getpid()) + ending)).string();
      auto animation = make_animation(path);
      for (int k = 0; k < frames; ++k) {
        Canvas canvas(200, 100);
        for (int x = 0; x < 200; ++x)  // something that does not pack to nothing
          canvas.rectangle({float(x), float(x * x % 97)}, {float(x + 1), 100.f},
                           {uint8_t(x), uint8_t(x * x), 7});
        canvas.disc({float(20 + k), 50}, 3, {255, 0, 0});
        animation->add(canvas, 20);
      }
      animation->finish();
      bytes[frames > 1] = std::filesystem::file_size(path);
      std::filesystem::remove(path);
    }
    EXPECT_LT(bytes[1], 20 * bytes[0]) << ending;
  }
}

}  // namespace
}  // namespace maglev
